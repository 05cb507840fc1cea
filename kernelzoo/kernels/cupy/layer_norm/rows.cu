// Lanes add up a row, then the squares of x - mean. Then they read the row a third time and write.
#include "../lanes.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS, ITEMS > 4 ? 1 : 2)
    rows(const MultiInput<2> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto out = line<T, 3, V>(p, lane);
  MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
  MultiPassRow<T, V, ITEMS> weight(line<T, 1, V>(p, lane), lane);
  CompensatedSum<W> sum, squares;
  x.each([&](const auto& v, i64) { sum.add(sum_of_terms(v, [](T e) { return widen(e); })); });
  const W mean = quotient(sum_over_lanes(sum.all(), shared, lane), p.n);
  x.each([&](const auto& v, i64) {
    squares.add(sum_of_terms(v, [&](T e) { return (widen(e) - mean) * (widen(e) - mean); }));
  });
  const W scale = inverse_root(quotient(sum_over_lanes(squares.all(), shared, lane), p.n) + W(eps));
  MultiPassRow<T, V, ITEMS> bias(line<T, 2, V>(p, lane), lane);  // loaded late, to save registers for two blocks per SM
  x.each([&](const auto& v, i64 k, const auto& w, const auto& b) {
    out.store(k, [&](int i) { return (widen(v[i]) - mean) * scale * widen(w[i]) + widen(b[i]); });
  }, weight, bias);
}
