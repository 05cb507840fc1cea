// One pass keeps a running (max, sum) state in each lane. Lanes merge their states after the loop.
#include "exponentials.cuh"

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS, sizeof(T) < 8 ? 3 : 1) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Wide<T> shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto state = state_over_lanes(state_of_lane(line<T, 0, V>(p, lane), lane), shared, lane);
  if (lane.leads) narrow(state.m + log(state.s), line<OUT, 1>(p, lane)[0]);
}
