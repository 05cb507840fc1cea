// Lanes add up a row's elements, and beside them what each addition rounds off; then they meet in a tree.
#include "../integers.cuh"
#include "../lanes.cuh"

template <class T, class OUT>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  using W = decltype(widen(T{}));
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  const auto out = line<OUT, 1>(p, lane);
  CompensatedSum<W> sum;
  for (i64 k = lane.first; k < lane.n; k += lane.step) sum.add(widen(x[k]));
  const W all = sum_over_lanes(sum.all(), shared, lane);
  if (lane.leads) narrow(all, out[0]);
}
