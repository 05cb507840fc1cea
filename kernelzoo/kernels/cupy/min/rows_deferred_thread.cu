// Short contiguous rows through shared memory, a few whole ones to a thread: see thread_rows.cuh.

#include "../thread_rows.cuh"
#include "minima.cuh"

// A word of which the elements outside [from, to) of the thread's rows are others of those within.
template <class T>
__device__ inline u32 within(u32 word, int element, int from, int to) {
  if (sizeof(T) == 2 && element < from) return (word & 0xffff0000u) | word >> 16;
  if (sizeof(T) == 2 && element + 1 >= to) return (word & 0xffffu) | word << 16;
  return word;
}

template <class T, int N, int BYTES, int THREADS>
__global__ void __launch_bounds__(THREADS, resident<ThreadRows<T, N, BYTES>>(24, THREADS))
    rows_deferred_thread(const Problem given) {
  const Problem p = begin(given);
  constexpr int PER = 4 / sizeof(T);
  using Rows = ThreadRows<T, N, BYTES>;
  extern __shared__ Bytes16 memory[];
  Rows rows(block_index() * (THREADS / 32) + threadIdx.x / 32, p.rows, memory);
  rows.read((const T*)p.x);
  u32 w[Rows::ROWS];
#pragma unroll
  for (int k = 0; k < Rows::ROWS; ++k) {
    rows.take(k);
    const int from = k * N, to = from + N;
    w[k] = nothing<T>();
#pragma unroll
    for (int j = 0; j < Rows::HELD; ++j) {
      if (from < (j + 1) * PER && j * PER < to) w[k] = least(w[k], within<T>(rows.held[j], j * PER, from, to), T{});
    }
  }

  const i64 row = rows.first + threadIdx.x % 32 * Rows::ROWS;
  T* out = (T*)p.out + row;
  constexpr int RESULTS = Rows::ROWS / PER;  // words of them
  if (row + Rows::ROWS <= p.rows && RESULTS > 0) {
    u32 results[RESULTS > 0 ? RESULTS : 1];
#pragma unroll
    for (int j = 0; j < RESULTS; ++j) {
      if constexpr (PER == 1) {
        results[j] = w[j];
      } else {  // of two rows, the first elements of each word and the second ones
        const u32 a = w[2 * j], b = w[2 * j + 1];
        results[j] = least((a & 0xffffu) | b << 16, a >> 16 | (b & 0xffff0000u), T{});
      }
    }
    if constexpr (RESULTS == 4) {
      store_plain(out, Bytes16{{results[0], results[1], results[2], results[3]}});
    } else {
#pragma unroll
      for (int j = 0; j < RESULTS; ++j) ((u32*)out)[j] = results[j];
    }
  } else {
#pragma unroll
    for (int k = 0; k < Rows::ROWS; ++k) {
      if (row + k < p.rows) put(out + k, w[k]);
    }
  }
}
