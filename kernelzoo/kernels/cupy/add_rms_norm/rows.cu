// Lanes write x + residual and add up the squares of these sums. Then they read the sums again and write the norm.
#include "../lanes.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<3> given, const int lanes, const int across, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  const auto out = line<T, 3, V>(p, lane), total = line<T, 4, V>(p, lane);
  MultiPassRow<T, V, ITEMS> sums(line<T, 0, V>(p, lane), lane), residual(line<T, 1, V>(p, lane), lane);
  CompensatedSum<W> squares;
  sums.each([&](auto& v, i64 k, const auto& other) {
    W sum[V];
    UNROLL for (int i = 0; i < V; ++i) sum[i] = widen(v[i]) + widen(other[i]);
    v.set(sum);
    total.store(k, [&](int i) { return widen(v[i]); });
    squares.add(sum_of_terms(v, [](T e) { return widen(e) * widen(e); }));
  }, residual);
  MultiPassRow<T, V, ITEMS> weight(line<T, 2, V>(p, lane), lane);
  const W scale = inverse_root(quotient(sum_over_lanes(squares.all(), shared, lane), p.n) + W(eps));
  sums.x = total;  // if they are not in registers, this thread reads the sums that it wrote
  sums.each([&](const auto& v, i64 k, const auto& w) {
    out.store(k, [&](int i) { return widen(v[i]) * scale * widen(w[i]); });
  }, weight);
}
