// Packs: V elements of a row in 16 bytes, or one; half precisions stay two to a register.
#pragma once

#include "row.cuh"

// --- The arithmetic's dtype: float of half precisions, and of each other dtype itself --------------------------------

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

// --- Packs -----------------------------------------------------------------------------------------------------------

template <class T, int V>
struct Pack {
  static_assert(V * sizeof(T) == 16, "a pack is 16 bytes");
  Bytes16 raw;

  __device__ void empty() {
    constexpr u32 odd = sizeof(T) == 8 ? 0xfff00000u : sizeof(T) == 4 ? 0xff800000u : 0u;
    constexpr u32 even = sizeof(T) == 8 ? 0u : odd;
    raw = Bytes16{{even, odd, even, odd}};
  }
  // KEPT: see load_kept and store_plain.
  template <bool KEPT = false> __device__ void load(const T* x) {
    raw = KEPT ? load_kept(x) : load_once(x);
  }
  __device__ void get(Wide<T> (&v)[V]) const {
    if constexpr (sizeof(T) == 8) {
      v[0] = __hiloint2double(raw.word[1], raw.word[0]);
      v[1] = __hiloint2double(raw.word[3], raw.word[2]);
    } else if constexpr (sizeof(T) == 4) {
      UNROLL for (int k = 0; k < 4; ++k) v[k] = __uint_as_float(raw.word[k]);
    } else {
      UNROLL for (int k = 0; k < V; ++k) v[k] = widen(T{(u16)(raw.word[k / 2] >> (k % 2 * 16))});
    }
  }
  __device__ void set(const Wide<T> (&v)[V]) {
    if constexpr (sizeof(T) == 8) {
      raw = Bytes16{{(u32)__double2loint(v[0]), (u32)__double2hiint(v[0]), (u32)__double2loint(v[1]),
                     (u32)__double2hiint(v[1])}};
    } else if constexpr (sizeof(T) == 4) {
      UNROLL for (int k = 0; k < 4; ++k) raw.word[k] = __float_as_uint(v[k]);
    } else {
      UNROLL for (int k = 0; k < 4; ++k) raw.word[k] = two_halves(v[2 * k], v[2 * k + 1], T{});
    }
  }
  template <bool KEPT = false> __device__ void store(T* out, bool packed) const {
    if (packed) {
      KEPT ? store_plain(out, raw) : store_once(out, raw);
      return;
    }
    UNROLL for (int k = 0; k < V; ++k) {  // the output's rows start elsewhere in a 16-byte word than the input's
      if constexpr (sizeof(T) == 8) {
        out[k] = __hiloint2double(raw.word[2 * k + 1], raw.word[2 * k]);
      } else if constexpr (sizeof(T) == 4) {
        out[k] = __uint_as_float(raw.word[k]);
      } else {
        out[k] = T{(u16)(raw.word[k / 2] >> (k % 2 * 16))};
      }
    }
  }
};

template <> __device__ inline void Pack<float16, 8>::empty() {
  raw = Bytes16{{0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u}};
}
template <> __device__ inline void Pack<bfloat16, 8>::empty() {
  raw = Bytes16{{0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u}};
}

template <class T>
struct Pack<T, 1> {
  Wide<T> value;

  __device__ void empty() { value = lowest<Wide<T>>(); }
  template <bool KEPT = false> __device__ void load(const T* x) { value = widen(*x); }
  __device__ void get(Wide<T> (&v)[1]) const { v[0] = value; }
  __device__ void set(const Wide<T> (&v)[1]) { value = v[0]; }
  template <bool KEPT = false> __device__ void store(T* out, bool) const { narrow(value, *out); }
};
