// Lanes keep a running maximum and the sum of exponentials below it, in one pass; the first then reads the label's logit.
#include "../logsumexp/exponentials.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<1> given, const int lanes, const int across, const i64 ignore_index) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  const auto state = row_state(x, shared, lane);
  if (!lane.leads) return;
  const i64 label = line<const i64, 1>(p, lane)[0];
  const W picked = 0 <= label && label < p.n ? widen(x[label]) : W(__int_as_float(0x7fffffff));
  const W infinite = state.m - state.m;  // then NaN, else 0
  const W loss = log(state.s) - (picked - state.m) + infinite;
  narrow(label == ignore_index ? W(0) : loss, line<T, 2>(p, lane)[0]);
}
