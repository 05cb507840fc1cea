// Lanes find the absolute maximum of a row, and read it again to write.
#include "../lanes.cuh"

constexpr float TOP = 448, LEAST = TOP * 1.1754943508222875e-38f;  // largest float8_e4m3fn; least maximum that is scaled

// The nearest float8_e4m3fn, to even between two, of a number below 464 in size or a NaN. In integers, since the
// hardware's conversion is of compute capability 8.9.
__device__ inline u8 to_float8(float v) {
  const u32 bits = __float_as_uint(v), size = bits & 0x7fffffffu;
  u32 made;
  if (size > 0x7f800000u) made = 0x7f;
  else if (size < 121u << 23) made = __float_as_uint(__uint_as_float(size) + 16384.0f) - (141u << 23);  // in 2^-9
  else made = (size - (120u << 23) + 0x7ffffu + (size >> 20 & 1)) >> 20;
  return made | bits >> 24 & 0x80;
}

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS) rows(const MultiInput<1> given, const int lanes, const int across) {
  const auto p = wait_for_previous_launch(given);
  __shared__ float shared[THREADS];
  const auto larger = [](float a, float b) { return a > b || a != a ? a : b; };  // NaN if one is
  const Lane lane(p, lanes, V == 1 && across);
  HeldRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
  const auto values = line<u8, 1>(p, lane);
  float top = 0;
  x.each([&](const auto& v, i64) {
    UNROLL for (int i = 0; i < V; ++i) top = larger(fabsf(widen(v[i])), top);
  });
  top = over_lanes(top, shared, lane, larger);
  const float scale = top < LEAST ? 1 : top / TOP, inverse = 1 / scale;
  x.each([&](const auto& v, i64 k) {
    typename BitsOf<V>::type eight = 0;
    UNROLL for (int i = 0; i < V; ++i) eight |= (decltype(eight))to_float8(widen(v[i]) * inverse) << 8 * i;
    *(decltype(eight)*)&values[k] = eight;
  });
  if (lane.leads) line<float, 2>(p, lane)[0] = scale;
}
