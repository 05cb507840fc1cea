// Lanes keep the least element so far and its place, and meet in a tree.
#include "../lanes.cuh"

// Integers in the order of the elements: a NaN is least, and zeros are equal. A comparison of floats would take a
// subnormal number for zero, since cupy compiles with -ftz=true.
__device__ inline int key(float v) {
  const int bits = __float_as_int(v), size = bits & 0x7fffffff;
  return size > 0x7f800000 ? (int)0x80000000 : bits < 0 ? -size : bits;
}
__device__ inline i64 key(double v) {
  const i64 bits = __double_as_longlong(v), size = bits & 0x7fffffffffffffffll;
  return size > 0x7ff0000000000000ll ? (i64)0x8000000000000000ull : bits < 0 ? -size : bits;
}
__device__ inline int key(float16 v) { return key(widen(v)); }
__device__ inline int key(bfloat16 v) { return key(widen(v)); }
__device__ inline int key(int v) { return v; }  // of 8, 16 or 32 bits
__device__ inline i64 key(i64 v) { return v; }

template <class K> struct Found { K key; i64 place; };

template <class T>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  using K = decltype(key(T{}));
  __shared__ Found<K> shared[THREADS];
  const auto lesser = [](Found<K> a, Found<K> b) {
    return a.key < b.key || (a.key == b.key && a.place < b.place) ? a : b;
  };
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  Found<K> least = {K(~0ull >> (65 - 8 * sizeof(K))), p.n};  // no element: the greatest key, past the end
  for (i64 k = lane.first; k < lane.n; k += lane.step) least = lesser({key(x[k]), k}, least);
  least = over_lanes(least, shared, lane, lesser);
  if (lane.leads) line<i64, 1>(p, lane)[0] = least.place;
}
