// The least element of a row, and its index (`place`).
#pragma once
#include "../lanes.cuh"
#include "../min/minima.cuh"

// Integer keys, ordered as argmin orders the elements: NaN is least, and both zeros are equal. Floats are not compared
// as floats, because cupy compiles with -ftz=true, which would flush subnormal numbers to zero.
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
template <class T> using Key = decltype(key(T{}));

template <class K> struct Found { K key; i64 place; };
template <class K>
__device__ inline Found<K> shuffle_xor(Found<K> v, int mask) {
  return {shuffle_xor(v.key, mask), shuffle_xor(v.place, mask)};
}
struct Lesser {
  template <class K>
  __device__ Found<K> operator()(Found<K> a, Found<K> b) const {
    return a.key < b.key || (a.key == b.key && a.place < b.place) ? a : b;
  }
};

// The result for no elements: the greatest key, and an index past the end.
template <class T>
__device__ inline Found<Key<T>> none_found(i64 n) {
  return {Key<T>(~0ull >> (65 - 8 * sizeof(Key<T>))), n};
}

template <class T, int V>
__device__ inline T least_element(const Vector<T, V>& v) {
  if constexpr (V == 1) return v[0];
  else {
    const Bits<T> bits = (Bits<T>)fold<T>(min_of_pack<T>(v.raw));
    return *(const T*)&bits;
  }
}

// A lane's least element, and the index of the first element of its vector.
template <class T, int V>
__device__ inline Found<Key<T>> least_of_lane(const Line<T, V>& x, const Lane& lane) {
  Found<Key<T>> least = none_found<T>(lane.n);
  for_each_vector(x, lane, [&](const auto& v, i64 k) { least = Lesser{}({key(least_element(v)), k}, least); });
  return least;
}

// The index of the least element. Its vector may have several equal elements: the first one counts.
template <class T, int V>
__device__ inline i64 index_of_least(const Line<T, V>& x, Found<Key<T>> least, i64 n) {
  i64 place = least.place;
  UNROLL for (int i = V - 1; i >= 0; --i) {
    const i64 k = least.place + i;
    if (k < n && key(x[k]) == least.key) place = k;
  }
  return place;
}
