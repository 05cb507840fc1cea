// Packs: V elements of a row in 16 bytes, or one; half precisions stay two to a register.
#ifndef KERNELZOO_SOFTMAX_PACKS_CUH
#define KERNELZOO_SOFTMAX_PACKS_CUH

#include "../packs.cuh"
#include "pairs.cuh"

__device__ inline u32 larger_halves(u32 a, u32 b, float16) {
  asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u32 larger_halves(u32 a, u32 b, bfloat16) {
  asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

// The largest element of some packs, any NaN dropped (the sum will show it). Half precisions are compared two at a
// time.
template <class T, int V, int ITEMS>
__device__ inline Wide<T> top_of(const Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
    u32 top = items[0].raw.word[0];
#pragma unroll
    for (int k = 1; k < 4 * ITEMS; ++k) top = larger_halves(top, items[k / 4].raw.word[k % 4], T{});
    return larger(widen(T{(u16)top}), widen(T{(u16)(top >> 16)}));
  } else {
    Wide<T> top = lowest<Wide<T>>(), v[V];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) top = larger(top, v[k]);
    }
    return top;
  }
}

// Half precisions stay two to a register from one pass over them to the next: the compiler, left to itself, would keep
// the widened values and spill.
template <class T, int V, int ITEMS>
__device__ inline void keep_packed(Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
#pragma unroll
    for (int k = 0; k < 4 * ITEMS; ++k) asm volatile("" : "+r"(items[k / 4].raw.word[k % 4]));
  }
}

// Sum of a pack's elements, pairwise.
template <class W, int V>
__device__ inline W sum_of(const W (&v)[V]) {
  W t[V];
#pragma unroll
  for (int k = 0; k < V; ++k) t[k] = v[k];
#pragma unroll
  for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) t[k] += t[k + half];
  }
  return t[0];
}

#endif
