// Lanes add up a row's squares, then read the row again and write.
#include "../lanes.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<1> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto out = line<T, 2, V>(p, lane);
  MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane), weight(line<T, 1, V>(p, lane), lane);
  CompensatedSum<W> squares;
  x.each([&](const auto& v, i64) { squares.add(sum_of_terms(v, [](T e) { return widen(e) * widen(e); })); });
  const W scale = inverse_root(quotient(sum_over_lanes(squares.all(), shared, lane), p.n) + W(eps));
  x.each([&](const auto& v, i64 k, const auto& w) {
    out.store(k, [&](int i) { return widen(v[i]) * scale * widen(w[i]); });
  }, weight);
}
