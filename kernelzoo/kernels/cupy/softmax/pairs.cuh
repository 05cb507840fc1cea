// The arithmetic of softmax, out = exp(x - max) / sum(exp(x - max)) over each row, and how results of parts are merged.
// Half precisions are computed in float, double in double.
//
// A thread keeps a pair (m, s): the maximum of its elements so far, and the sum of exp(x - m). Pairs are merged as in
// M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018. zero_if_empty(m) replaces -inf by 0, so
// that exp(-inf - m) is 0 instead of NaN. A row of only -inf becomes 0 / 0. A NaN or +inf makes the sum NaN, and so the
// row.
#pragma once
#include "../vector_io.cuh"

// First subtract, then scale to base 2: scaling x itself would lose digits if x has a large offset.
__device__ inline float fast_exp2(float d) { asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(d)); return d; }
__device__ inline float exponential(float d) { return fast_exp2(d * 1.4426950408889634f); }
__device__ inline double exponential(double d) { return exp(d); }

__device__ inline float maximum(float a, float b) { return fmaxf(a, b); }
__device__ inline double maximum(double a, double b) { return a > b ? a : b; }
template <bool NAN_STAYS, class W>
__device__ inline W maximum(W a, W b) {
  if constexpr (!NAN_STAYS) return maximum(a, b);
  else asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}

template <class W> __device__ inline W zero_if_empty(W m) { return m == minus_infinity<W>() ? W(0) : m; }

template <class W, class S = W> struct Pair { W m; S s; };

// exp(x - max) as an integer multiple of 2^-42. Sums of up to 2^20 such terms are exact, so any order gives the same
// bits. If the maximum is infinite or NaN (maximum<true>), m - m is NaN.
template <bool EXACT, class W>
__device__ inline auto term(W e) {
  if constexpr (EXACT) return __float2ll_rn(e * 0x1p42f);
  else return e;
}
__device__ inline Pair<float> row_pair(float m, i64 sum) { return {m, __ll2float_rn(sum) * 0x1p-42f + (m - m)}; }
__device__ inline Pair<double> row_pair(double m, double sum) { return {m, sum}; }

// (shift, scale) of a row, from its merged pair. An element's result is e^(x - shift) * scale. In half precision it is
// 2^((x - shift) * log2(e) + scale), which saves an instruction. The rounding error is below that of half precision.
template <class T>
__device__ inline Pair<Wide<T>> normalizer(Pair<Wide<T>> all) {
  if constexpr (sizeof(T) == 2) return {zero_if_empty(all.m), -log2f(all.s)};
  else return {zero_if_empty(all.m), Wide<T>(1) / all.s};
}
template <class T>
__device__ inline Wide<T> normalize(Wide<T> v, Pair<Wide<T>> by) {
  if constexpr (sizeof(T) == 2) return fast_exp2(fmaf(v - by.m, 1.4426950408889634f, by.s));
  else return exponential(v - by.m) * by.s;
}

template <class W>
__device__ inline Pair<W> merge(Pair<W> a, Pair<W> b) {
  const W m = maximum(a.m, b.m), shift = zero_if_empty(m);
  return {m, a.s * exponential(a.m - shift) + b.s * exponential(b.m - shift)};
}

template <int LANES, int FROM = 1, bool NAN_STAYS = false, class W>
__device__ inline W warp_max(W m) {
  UNROLL for (int mask = LANES / 2; mask >= FROM; mask /= 2) m = maximum<NAN_STAYS>(m, shuffle_xor(m, mask));
  return m;
}

// Merge pairs over LANES adjacent lanes, a power of two. Every lane gets the same bits.
template <int LANES, int FROM = 1, class W>
__device__ inline Pair<W> warp_merge(Pair<W> own) {
  const W m = warp_max<LANES, FROM>(own.m);
  return {m, warp_sum<LANES, FROM>(own.s * exponential(own.m - zero_if_empty(m)))};
}

// Merge `count` pairs in memory. Every warp does this.
template <class W>
__device__ inline Pair<W> merge_slots(const Pair<W>* slots, int count) {
  const int lane = threadIdx.x & 31;
  W m = minus_infinity<W>(), s = 0;
  for (int k = lane; k < count; k += 32) m = maximum(m, slots[k].m);
  const W shift = zero_if_empty(m);
  for (int k = lane; k < count; k += 32) s += slots[k].s * exponential(slots[k].m - shift);
  return warp_merge<32>(Pair<W>{m, s});
}

// Merge pairs over the block, with one barrier. `slots` has 32 pairs, and may be written again after the next barrier.
template <class W>
__device__ inline Pair<W> block_merge(Pair<W> own, Pair<W>* slots) {
  own = warp_merge<32>(own);
  if ((threadIdx.x & 31) == 0) slots[threadIdx.x / 32] = own;
  __syncthreads();
  return merge_slots(slots, blockDim.x / 32);
}

template <bool NAN_STAYS>
__device__ inline u32 max_halves(u32 a, u32 b, float16) {
  if constexpr (NAN_STAYS) asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  else asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
template <bool NAN_STAYS>
__device__ inline u32 max_halves(u32 a, u32 b, bfloat16) {
  if constexpr (NAN_STAYS) asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  else asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

// The largest element of some packs. A NaN is dropped (only the sum shows it), except if NAN_STAYS. Half precisions are
// compared two at a time.
template <bool NAN_STAYS = false, class T, int V, int ITEMS>
__device__ inline Wide<T> max_of(const Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
    u32 top = items[0].raw.word[0];
    UNROLL for (int k = 1; k < 4 * ITEMS; ++k) top = max_halves<NAN_STAYS>(top, items[k / 4].raw.word[k % 4], T{});
    return maximum<NAN_STAYS>(widen(T{(u16)top}), widen(T{(u16)(top >> 16)}));
  } else {
    Wide<T> top = minus_infinity<Wide<T>>(), v[V];
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
      UNROLL for (int k = 0; k < V; ++k) top = maximum<NAN_STAYS>(top, v[k]);
    }
    return top;
  }
}
