// Each lane adds up its vectors, and the rounding errors of that sum. Then the lanes' sums are added in a tree.
#include "sum_of_lane.cuh"

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Sum<T> shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto all = sum_over_lanes(sum_of_lane(line<T, 0, V>(p, lane), lane), shared, lane);
  if (lane.leads) narrow(all, line<OUT, 1>(p, lane)[0]);
}
