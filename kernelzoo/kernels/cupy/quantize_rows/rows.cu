// Lanes find a row's absolute maximum, then read the row again and write it in 8 bits.
#include "../lanes.cuh"

constexpr float TOP = 448, LEAST = TOP * 1.1754943508222875e-38f;  // largest float8_e4m3fn; least maximum to scale

__device__ inline u32 magnitude_bits(float v) { return __float_as_uint(v) & 0x7fffffffu; }

// The nearest float8_e4m3fn, ties to even, of NaN or of a number with a magnitude below 464.
__device__ inline u32 to_float8(float v) {
  const u32 size = min(magnitude_bits(v), __float_as_uint(480)), sign = __float_as_uint(v) >> 24 & 0x80;
  if (size < 121u << 23) return sign | (__float_as_uint(__uint_as_float(size) + 16384.0f) - (141u << 23));  // in 2^-9
  return sign | (size - (120u << 23) + 0x7ffffu + (size >> 20 & 1)) >> 20;
}
__device__ inline u32 two_float8(float low, float high) {
#if __CUDA_ARCH__ >= 890
  u16 two;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(high), "f"(low));
  return two;
#else
  return to_float8(low) | to_float8(high) << 8;
#endif
}

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS) rows(const MultiInput<1> given, const int lanes, const int across) {
  const auto p = wait_for_previous_launch(given);
  __shared__ u32 shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
  const auto values = line<u8, 1>(p, lane);
  u32 size = 0;  // without the sign, a float's bits order as an integer, and NaN is largest
  x.each([&](const auto& v, i64) {
    UNROLL for (int i = 0; i < V; ++i) size = max(size, magnitude_bits(widen(v[i])));
  });
  const float top = __uint_as_float(merge_lanes(size, shared, lane, [](u32 a, u32 b) { return max(a, b); }));
  const float scale = top < LEAST ? 1 : top / TOP, inverse = 1 / scale;
  x.each([&](const auto& v, i64 k) {
    typename BitsOf<V>::type packed = 0;
    UNROLL for (int i = 0; i < V; i += 2) {
      const u32 two = two_float8(widen(v[i]) * inverse, widen(v[i + 1]) * inverse);
      packed |= (decltype(packed))two << 8 * i;
    }
    *(decltype(packed)*)&values[k] = packed;
  });
  if (lane.leads) line<float, 2>(p, lane)[0] = scale;
}
