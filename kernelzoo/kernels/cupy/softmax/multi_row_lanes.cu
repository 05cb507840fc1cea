// Short contiguous rows through shared memory, LANES lanes to a row; of half precision and odd length, to two rows.
//
// Two such rows fill whole words of four bytes: but for the one that they share, all of a row's words are its own, and
// no lane tests where in a word the row begins. See thread_rows.cuh.

#include "whole_rows.cuh"

// A row's whole words: by 32, in runs of 32 / LANES to a lane, so that the lanes of rows that are an odd number of words
// apart meet in no bank; and the rest one by one.
template <int WORDS, int LANES>
struct Dealt {
  static constexpr int RUN = 32 / LANES, RUNS = WORDS / 32, REST = WORDS % 32;
  static constexpr int ITEMS = RUNS * RUN + (REST + LANES - 1) / LANES;
  __device__ static int place(int i, int lane) {
    return i < RUNS * RUN ? i / RUN * 32 + lane * RUN + i % RUN : RUNS * 32 + (i - RUNS * RUN) * LANES + lane;
  }
  __device__ static bool has(int i, int lane) {
    return REST % LANES == 0 || i + 1 < ITEMS || lane < REST % LANES;
  }
};

template <class T, int N, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, resident<ThreadRows<T, N, 4, LANES>>(N / LANES, THREADS))
    multi_row_lanes(const Problem given) {
  const Problem p = begin(given);
  constexpr int PER = 4 / sizeof(T), WHOLE = N / PER, HALF = N % PER;
  using Words = Dealt<WHOLE, LANES>;
  constexpr int HELD = Words::ITEMS * PER + HALF;
  extern __shared__ Bytes16 memory[];
  ThreadRows<T, N, 4, LANES> rows(block_index() * (THREADS / 32) + threadIdx.x / 32, p.rows, memory);
  rows.read((const T*)p.x);
  const int lane = threadIdx.x % LANES;
  const bool has_half = lane == LANES - 1;
#pragma unroll
  for (int k = 0; k < rows.ROWS; ++k) {
    u32* words = (u32*)rows.words + k * (WHOLE + HALF);
    u16* half = (u16*)rows.words + k * N + (k == 0 ? N - 1 : 0);  // the element in the word that two rows share
    float v[HELD], m = lowest<float>(), s = 0, part = 0;
#pragma unroll
    for (int i = 0; i < Words::ITEMS; ++i) {
      const bool has = Words::has(i, lane);
      const u32 word = has ? words[Words::place(i, lane)] : 0;
      if constexpr (PER == 2) {
        v[2 * i] = has ? widen(T{(u16)word}) : lowest<float>();
        v[2 * i + 1] = has ? widen(T{(u16)(word >> 16)}) : lowest<float>();
      } else {
        v[i] = has ? __uint_as_float(word) : lowest<float>();
      }
    }
    if constexpr (HALF != 0) v[HELD - 1] = has_half ? widen(T{*half}) : lowest<float>();
#pragma unroll
    for (int i = 0; i < HELD; ++i) m = larger(m, v[i]);
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
    const float shift = zero_if_empty(m);
#pragma unroll
    for (int i = 0; i < HELD; ++i) {
      v[i] = exponential(v[i] - shift);
      part += v[i];  // of eight: a single sum of equal terms, all rounded the same way, would be off by too much
      if (i % 8 == 7 || i + 1 == HELD) s += part, part = 0;
    }
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2) s += exchange(s, mask);
    const float inverse = reciprocal(s);
#pragma unroll
    for (int i = 0; i < Words::ITEMS; ++i) {
      u32 word;
      if constexpr (PER == 2) {
        word = two_halves(v[2 * i] * inverse, v[2 * i + 1] * inverse, T{});
      } else {
        word = __float_as_uint(v[i] * inverse);
      }
      if (Words::has(i, lane)) words[Words::place(i, lane)] = word;
    }
    if constexpr (HALF != 0) {
      if (has_half) narrow(v[HELD - 1] * inverse, *(T*)half);
    }
  }
  rows.write((T*)p.out);
}
