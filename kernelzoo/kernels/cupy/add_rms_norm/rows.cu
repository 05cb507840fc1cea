// Lanes write sums and add up their squares, and read them again to write the norm.
#include "../lanes.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<3> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane), residual = line<const T, 1>(p, lane), weight = line<const T, 2>(p, lane);
  const auto out = line<T, 3>(p, lane), total = line<T, 4>(p, lane);
  CompensatedSum<W> squares;
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    T rounded;
    narrow(widen(x[k]) + widen(residual[k]), rounded);
    total[k] = rounded;
    squares.add(widen(rounded) * widen(rounded));
  }
  const W scale = 1 / sqrt(sum_over_lanes(squares.all(), shared, lane) / p.n + W(eps));
  for (i64 k = lane.first; k < lane.n; k += lane.step) {
    narrow(widen(total[k]) * scale * widen(weight[k]), out[k]);  // what this thread stored
  }
}
