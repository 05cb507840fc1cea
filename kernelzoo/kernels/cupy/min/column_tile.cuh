// Columns: adjacent rows are adjacent in memory. So adjacent lanes read adjacent columns, and each loops down its own.
#pragma once
#include "minima.cuh"

// A tile is `wide` adjacent columns. A line of it is one element of each of them. x_lanes lanes read a line in vectors
// of V elements, and a block reads `depths` lines at a time. A line may begin inside a vector. A thread reads only
// lines with the same offset in a vector. So each element of its vector stays with one column. Elements of other tiles
// are ignored at the end.
template <class T, int V>
struct Tile {
  const T* x;
  const T* x_end;
  i64 length, x_n, x_inner;
  int wide, x_lanes, depths;

  __device__ int offset_in_vector(i64 line) const {
    return V > 1 ? (int)(((u32)(u64)x + (u32)line * (u32)x_n * (u32)sizeof(T) & 15u) / (u32)sizeof(T)) : 0;
  }
  // Whether x ends inside this vector. Such a vector is read element by element, because memory may end there too.
  __device__ bool ends_within(const T* at) const { return V > 1 && (u64)at >= ((u64)x_end & ~(u64)15); }

  // Write this thread's minimum for each element of its vector to shared memory.
  template <int ITEMS>
  __device__ void reduce_lines(T* places) const {
    constexpr int WORDS = V > 1 ? 16 / sizeof(Word<T>) : 1;
    const int lane = threadIdx.x % x_lanes, depth = threadIdx.x / x_lanes;
    if (depth >= depths) return;
    const auto word = [&](i64 line) { return x + line * x_n + lane * V * x_inner - offset_in_vector(line); };
    Word<T> w[WORDS];
    UNROLL for (int k = 0; k < WORDS; ++k) w[k] = identity_word<T>();
    if (lane * V < offset_in_vector(depth) + wide) {
      const T* at = word(depth);
      const i64 end = ends_within(word(length - 1)) ? length - 1 : length;
      for (i64 j = depth; j < end; j += ITEMS * depths, at += ITEMS * depths * x_n) {
        Word<T> batch[ITEMS][WORDS];
        UNROLL for (int i = 0; i < ITEMS; ++i) {
          const bool inside = j + i * depths < end;
          if constexpr (V > 1) {
            const Bytes16 v = load_once_if(inside, at + i * depths * x_n, identity_pack<T>());
            UNROLL for (int k = 0; k < WORDS; ++k) batch[i][k] = element<Word<T>>(v, k);
          } else {
            batch[i][0] = broadcast(inside ? at + i * depths * x_n : at);  // past the end, the first element again
          }
        }
        UNROLL for (int i = 0; i < ITEMS; ++i) {
          UNROLL for (int k = 0; k < WORDS; ++k) w[k] = minimum(w[k], batch[i][k], T{});
        }
      }
    }
    if constexpr (V > 1) {
      UNROLL for (int k = 0; k < WORDS; ++k) ((Word<T>*)places)[threadIdx.x * WORDS + k] = w[k];
    } else {
      store_minimum(places + threadIdx.x, w[0]);
    }
  }

  // Reduce each column from shared memory to `out`. If columns are few, groups of threads share a column's minima.
  __device__ void reduce_rows(const T* places, Word<T>* slots, T* out, i64 out_step) const {
    __syncthreads();
    const int groups = (int)blockDim.x / wide;
    const auto over = [&](int row, int from, int step) {
      Word<T> w = identity_word<T>();
#pragma unroll 4
      for (int d = from; d < depths; d += step) {
        w = minimum(w, broadcast(places + d * x_lanes * V + offset_in_vector(d) + row), T{});
      }
      const T* last = x + (length - 1) * x_n + row;
      if (from == 0 && ends_within(last)) w = minimum(w, broadcast(last), T{});
      return w;
    };
    if (groups <= 1) {
      for (int row = threadIdx.x; row < wide; row += blockDim.x) store_minimum(out + row * out_step, over(row, 0, 1));
      return;
    }
    if (threadIdx.x < groups * wide) slots[threadIdx.x] = over(threadIdx.x % wide, threadIdx.x / wide, groups);
    __syncthreads();
    if (threadIdx.x < wide) {
      Word<T> w = slots[threadIdx.x];
#pragma unroll 4
      for (int k = 1; k < groups; ++k) w = minimum(w, slots[k * wide + threadIdx.x], T{});
      store_minimum(out + threadIdx.x * out_step, w);
    }
  }
};
