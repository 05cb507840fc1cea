// The arithmetic's dtype: float of half precisions, and of each other dtype itself.
#ifndef KERNELZOO_WIDE_CUH
#define KERNELZOO_WIDE_CUH

#include "row.cuh"

template <class T> struct WideOf { using type = float; };
template <> struct WideOf<double> { using type = double; };
template <class T> using Wide = typename WideOf<T>::type;

__device__ inline float widen(float v) { return v; }
__device__ inline double widen(double v) { return v; }
__device__ inline float widen(bfloat16 v) { return __uint_as_float((u32)v.bits << 16); }
__device__ inline float widen(float16 v) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
  return wide;
}

__device__ inline void narrow(float v, float& to) { to = v; }
__device__ inline void narrow(double v, double& to) { to = v; }
__device__ inline void narrow(float v, float16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v)); }
__device__ inline void narrow(float v, bfloat16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v)); }

__device__ inline u32 two_halves(float low, float high, float16) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline u32 two_halves(float low, float high, bfloat16) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

template <class W> __device__ inline W lowest() { return -__int_as_float(0x7f800000); }

#endif
