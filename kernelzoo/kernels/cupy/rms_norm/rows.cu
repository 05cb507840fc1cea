// Lanes add up a row's squares, and read it again to write.
#include "../lanes.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<1> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane), weight = line<const T, 1>(p, lane);
  const auto out = line<T, 2>(p, lane);
  CompensatedSum<W> squares;
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    const W v = widen(x[k]);
    squares.add(v * v);
  }
  const W scale = 1 / sqrt(sum_over_lanes(squares.all(), shared, lane) / p.n + W(eps));
  for (i64 k = lane.first; k < lane.n; k += lane.step) narrow(widen(x[k]) * scale * widen(weight[k]), out[k]);
}
