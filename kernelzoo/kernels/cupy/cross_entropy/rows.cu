// One pass keeps a running (max, sum) state in each lane. Then a row's first lane reads the logit of the row's label.
#include "loss.cuh"

template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<1> given, const int lanes, const int across, const i64 ignore_index) {
  const auto p = wait_for_previous_launch(given);
  __shared__ Wide<T> shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto state = state_over_lanes(state_of_lane(line<T, 0, V>(p, lane), lane), shared, lane);
  if (lane.leads) store_loss<T>(p, lane, state, ignore_index);
}
