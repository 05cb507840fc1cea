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
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    const W v = widen(x[k]);
    if (v > m) sum.scale(exponential(m - v)), m = v;
    sum.add(exponential(above(v, m)));
  }
  const W top = over_lanes(m, shared, lane, [](W a, W b) { return maximum(a, b); });
  return {top, sum_over_lanes(sum.all() * exponential(above(m, top)), shared, lane)};
}
