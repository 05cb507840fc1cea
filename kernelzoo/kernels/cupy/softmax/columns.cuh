// Columns: the rows lie side by side, so lanes run along them and each thread walks down its own.
//
// A block takes x_lanes * V neighbouring rows (V of them a pack) and blockDim.x / x_lanes of their elements at a time.
// The first ITEMS elements of a thread stay in registers, the others are read again. With SPLIT, `chunks` blocks share
// the reduced axis and meet, as in split_grid.
#ifndef KERNELZOO_SOFTMAX_COLUMNS_CUH
#define KERNELZOO_SOFTMAX_COLUMNS_CUH

#include "meet.cuh"
#include "running.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int COLUMN_BLOCKS = 4;  // on an SM, of single elements, 64 registers a thread
#else
constexpr int COLUMN_BLOCKS = 3;  // for other devices the compiler would spill
#endif

template <class T, int V, int ITEMS, bool SPLIT>
__global__ void __launch_bounds__(V == 1 ? 256 : 512, V > 1 ? 1 : SPLIT || sizeof(T) == 8 ? 2 : COLUMN_BLOCKS)
    columns(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int chunks, const int x_lanes) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int BATCH = V == 8 ? 2 : 4;  // of eight rows a pack, each with its own pair, two fill the registers
  __shared__ Pair<W> slots[16 * 32 * (V > 1 ? V / 2 : 1)];  // warps * rows of a block: at most 16 * max(32, 16 * V)
  const int wide = x_lanes * V, tiles = (int)((p.inner + wide - 1) / wide);
  const int lane = threadIdx.x % x_lanes, depth = threadIdx.x / x_lanes, depths = blockDim.x / x_lanes;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const i64 block = block_index(), group = SPLIT ? block / chunks : block;
  const i64 groups = SPLIT ? (i64)gridDim.x / chunks : (i64)1 << 62, all_tiles = p.rows / p.inner * tiles;
  const i64 share = SPLIT ? (p.n + chunks - 1) / chunks : p.n, begin = SPLIT ? block % chunks * share : 0;
  const i64 end = begin + share < p.n ? begin + share : p.n;

  for (i64 g = group; g < all_tiles; g += groups) {
    const i64 outer = g / tiles, inner = (g - outer * tiles) * wide + lane * V;
    const bool live = inner < p.inner;
    const T* x = (const T*)p.x + outer * p.x_outer + inner * p.x_inner;
    T* out = (T*)p.out + outer * p.out_outer + inner * p.out_inner;
    const i64 from = live ? begin + depth : end, beyond = from + (i64)ITEMS * depths;

    W m[V], s[V], v[V];
    Pack<T, V> items[ITEMS], batch[BATCH];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * depths;
      if (j < end) {
        items[i].load(x + j * p.x_n, 0);
      } else {
        items[i].empty();
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) m[k] = larger(m[k], v[k]);
    }
    keep_packed(items);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) s[k] += exponential(v[k] - zero_if_empty(m[k]));
    }
    keep_packed(items);
    for (i64 j = beyond; j < end; j += BATCH * depths) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].load(x + (j + (i64)i * depths) * p.x_n, 0);
        } else {
          batch[i].empty();
        }
      }
      take_in_columns(m, s, batch);
    }

    // Across the lanes of a warp that share a row, across the warps, and across the blocks.
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const W own = m[k];
      for (int mask = 16; mask >= x_lanes; mask /= 2) m[k] = larger(m[k], exchange(m[k], mask));
      s[k] *= exponential(own - zero_if_empty(m[k]));
      for (int mask = 16; mask >= x_lanes; mask /= 2) s[k] += exchange(s[k], mask);
      if ((threadIdx.x & 31) < x_lanes) slots[warp * wide + lane * V + k] = {m[k], s[k]};
    }
    __syncthreads();
    const Pair<W>* pairs = slots + threadIdx.x;
    int count = warps;
    Pair<W> all = {lowest<W>(), 0};
#pragma unroll
    for (int round = 0; round <= SPLIT; ++round) {
      if (threadIdx.x < wide) {
        W top = lowest<W>(), sum = 0;
        for (int k = 0; k < count; ++k) top = larger(top, pairs[(i64)k * wide].m);
        for (int k = 0; k < count; ++k) {
          sum += pairs[(i64)k * wide].s * exponential(pairs[(i64)k * wide].m - zero_if_empty(top));
        }
        all = {top, sum};
      }
      if (SPLIT && round == 0) {
        Pair<W>* tile_partial = partial + g * chunks * wide;
        if (threadIdx.x < wide) tile_partial[block % chunks * wide + threadIdx.x] = all;
        meet(arrived + g, chunks);
        pairs = tile_partial + threadIdx.x;
        count = chunks;
      }
    }
    __syncthreads();
    if (threadIdx.x < wide) slots[threadIdx.x] = {zero_if_empty(all.m), W(1) / all.s};
    __syncthreads();
#pragma unroll
    for (int k = 0; k < V; ++k) {
      m[k] = slots[lane * V + k].m;  // the shift
      s[k] = slots[lane * V + k].s;  // the scale
    }

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * depths;
      if (j < end) {
        items[i].get(v);
#pragma unroll
        for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - m[k]) * s[k];
        items[i].set(v);
        items[i].store(out + j * p.out_n, 0, true);
      }
    }
    for (i64 j = beyond; j < end; j += BATCH * depths) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].load(x + (j + (i64)i * depths) * p.x_n, 0);
        } else {
          batch[i].empty();
        }
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].get(v);
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - m[k]) * s[k];
          batch[i].set(v);
          batch[i].store(out + (j + (i64)i * depths) * p.out_n, 0, true);
        }
      }
    }
    __syncthreads();  // the slots are free for the next tile
  }
}

#endif
