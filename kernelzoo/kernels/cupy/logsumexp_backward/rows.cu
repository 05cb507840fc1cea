// An exponential of each element, times its row's gradient.
#include "../lanes.cuh"
#include "../softmax/pairs.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS) rows(const MultiInput<2> given, const int lanes, const int across) {
  const auto p = wait_for_previous_launch(given);
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  const Wide<T> y = widen(line<const T, 1>(p, lane)[0]), grad = widen(line<const T, 2>(p, lane)[0]);
  const auto out = line<T, 3>(p, lane);
  for (i64 k = lane.first; k < lane.n; k += lane.step) narrow(grad * exponential(widen(x[k]) - y), out[k]);
}
