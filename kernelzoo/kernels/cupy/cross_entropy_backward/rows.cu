// Lanes find the (max, sum) state of a row, and read it again to write.
#include "../logsumexp/exponentials.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<2> given, const int lanes, const int across, const i64 ignore_index) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  const i64 label = line<const i64, 1>(p, lane)[0];
  const auto out = line<T, 3>(p, lane);
  const bool inside = 0 <= label && label < p.n;
  const W grad = inside ? widen(line<const T, 2>(p, lane)[0]) : W(__int_as_float(0x7fffffff));
  const auto state = row_state(x, shared, lane);
  const W inverse = 1 / state.s + (state.m - state.m);  // NaN of an infinite maximum
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    const W share = exponential(widen(x[k]) - state.m) * inverse - (k == label ? 1 : 0);
    narrow(label == ignore_index ? W(0) : grad * share, out[k]);
  }
}
