// Lanes keep a running maximum and the sum of exponentials below it, in one pass.
#include "exponentials.cuh"

template <class T, class OUT>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto state = row_state(line<const T, 0>(p, lane), shared, lane);
  if (lane.leads) narrow(state.m + log(state.s), line<OUT, 1>(p, lane)[0]);
}
