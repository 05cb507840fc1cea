// The running maximum of a row, and the sum of exponentials below it.
#pragma once
#include "../lanes.cuh"
#include "../softmax/pairs.cuh"

template <class W> __device__ inline W lowest();
template <> __device__ inline float lowest() { return -3.4028234663852886e38f; }
template <> __device__ inline double lowest() { return -1.7976931348623157e308; }

// v - m, and 0 where both are the same infinity.
template <class W> __device__ inline W above(W v, W m) { return v == m ? W(0) : v - m; }

// (maximum, sum) of each row, in one pass. The maximum starts at the lowest finite number, so that no difference is of
// two -inf: a row of -inf alone has the sum 0. A NaN is in the sum; beside +inf each other +inf counts as 1.
template <class T, class W>
__device__ inline Pair<W> row_state(const Line<T>& x, W* shared, const Lane& lane) {
  W m = lowest<W>();
  CompensatedSum<W> sum;
#pragma unroll 4
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    // Of exp(m - new m) and exp(v - new m) one is 1. Without a branch, so that several elements are on their way.
    const W v = widen(x[k]), rise = above(v, m), other = exponential(-fabs(rise));
    sum.scale(rise > 0 ? other : W(1));
    sum.add(rise > 0 ? W(1) : other);
    m = maximum(m, v);
  }
  const W top = over_lanes(m, shared, lane, [](W a, W b) { return maximum(a, b); });
  return {top, sum_over_lanes(sum.all() * exponential(above(m, top)), shared, lane)};
}
