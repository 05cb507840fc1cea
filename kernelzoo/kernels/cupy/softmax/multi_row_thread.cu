// Short contiguous rows through shared memory, a few whole ones to a thread, one after the other in its registers.
//
// No thread waits for another's part of a row, and none tests where its row begins or ends: see thread_rows.cuh.

#include "whole_rows.cuh"

template <class T, int N, int BYTES, int THREADS>
__global__ void __launch_bounds__(THREADS, resident<ThreadRows<T, N, BYTES>>(N, THREADS))
    multi_row_thread(const Problem given) {
  const Problem p = begin(given);
  extern __shared__ Bytes16 memory[];
  ThreadRows<T, N, BYTES> rows(block_index() * (THREADS / 32) + threadIdx.x / 32, p.rows, memory);
  rows.read((const T*)p.x);
  float before = 0;  // the last result of the row before, which waits for its word's other half
#pragma unroll
  for (int k = 0; k < rows.ROWS; ++k) {
    rows.take(k);
    float v[N], m = lowest<float>(), s = 0, part = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int e = k * N + i;
      if constexpr (sizeof(T) == 2) {
        v[i] = widen(T{(u16)(rows.held[e / 2] >> (e % 2 * 16))});
      } else {
        v[i] = __uint_as_float(rows.held[e]);
      }
      m = larger(m, v[i]);
    }
    const float shift = zero_if_empty(m);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      v[i] = exponential(v[i] - shift);
      part += v[i];  // of eight: a single sum of equal terms, all rounded the same way, would be off by too much
      if (i % 8 == 7 || i + 1 == N) s += part, part = 0;
    }
    const float inverse = reciprocal(s);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int e = k * N + i;
      v[i] *= inverse;
      if constexpr (sizeof(T) == 4) {
        rows.held[e] = __float_as_uint(v[i]);
      } else if (e % 2 == 1) {
        rows.held[e / 2] = two_halves(i > 0 ? v[i > 0 ? i - 1 : 0] : before, v[i], T{});
      }
    }
    before = v[N - 1];
    rows.give(k);
    if (N > 8) __syncwarp();  // or the compiler reads the next rows ahead, past the registers
  }
  rows.write((T*)p.out);
}
