// Lanes add up a row, then the squares of its distances from the mean, and read it a third time to write.
#include "../lanes.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<2> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane), weight = line<const T, 1>(p, lane), bias = line<const T, 2>(p, lane);
  const auto out = line<T, 3>(p, lane);
  CompensatedSum<W> sum, squares;
  for (i64 k = lane.first; k < lane.n; k += lane.step) sum.add(widen(x[k]));
  const W mean = sum_over_lanes(sum.all(), shared, lane) / p.n;
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    const W away = widen(x[k]) - mean;
    squares.add(away * away);
  }
  const W scale = 1 / sqrt(sum_over_lanes(squares.all(), shared, lane) / p.n + W(eps));
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    narrow((widen(x[k]) - mean) * scale * widen(weight[k]) + widen(bias[k]), out[k]);
  }
}
