// Lanes multiply exp(x - y) of each element by the gradient of its row.
#include "../lanes.cuh"
#include "../softmax/pairs.cuh"

template <class T, int V>
__global__ void __launch_bounds__(THREADS) rows(const MultiInput<2> given, const int lanes, const int across) {
  const auto p = wait_for_previous_launch(given);
  const Lane lane(p, lanes, V == 1 && across);
  MultiPassRow<T, V, 0> x(line<T, 0, V>(p, lane), lane);
  const Wide<T> y = widen(line<const T, 1>(p, lane)[0]), grad = widen(line<const T, 2>(p, lane)[0]);
  const auto out = line<T, 3, V>(p, lane);
  x.each([&](const auto& v, i64 k) {
    out.store(k, [&](int i) { return product(grad, exponential(widen(v[i]) - y)); });
  });
}
