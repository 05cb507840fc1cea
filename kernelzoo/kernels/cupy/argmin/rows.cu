// Each lane keeps its least element and the index of that element's vector. Lanes merge these in a tree.
#include "least.cuh"

template <class T, int V>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Found<Key<T>> shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto x = line<T, 0, V>(p, lane);
  const auto least = merge_lanes(least_of_lane(x, lane), shared, lane, Lesser{});
  if (lane.leads) line<i64, 1>(p, lane)[0] = index_of_least(x, least, p.n);
}
