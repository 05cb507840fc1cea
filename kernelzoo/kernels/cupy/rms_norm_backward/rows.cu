// Blocks loop over rows, and store the sums over these rows for the gradient of the weight.
#include "../partials.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<3> given, const int lanes, const int across, Wide<T>* partial, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ Sums<W, 2> shared[THREADS];
  const Lane own(p, lanes, V == 1 && across);
  const MultiPassRow<T, V, ITEMS> weight(line<T, 1, V>(p, own), own);
  SumsOverRows<W, V, ITEMS> dweight(partial, 0, p.n, own);
  for (i64 block = block_index(); p.rows > block * own.rows; block += (i64)gridDim.x * gridDim.y) {
    const Lane lane(p, lanes, V == 1 && across, block);
    MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
    const MultiPassRow<T, V, ITEMS> grad(line<T, 2, V>(p, lane), lane);
    const auto dx = line<T, 3, V>(p, lane);
    CompensatedSum<W> squares, products;
    x.each([&](const auto& v, i64, const auto& w, const auto& g) {
      squares.add(sum_of_terms(v, [](T e) { return widen(e) * widen(e); }));
      products.add(sum_of_terms<V>([&](int i) { return widen(v[i]) * product(widen(g[i]), widen(w[i])); }));
    }, weight, grad);
    const auto all = sum_over_lanes(Sums<W, 2>{squares.all(), products.all()}, shared, lane);
    const W scale = inverse_root(quotient(all.of[0], p.n) + W(eps));
    const W slope = quotient(all.of[1], p.n) * scale * scale;
    x.each([&](const auto& v, i64 k, const auto& w, const auto& g, auto&& sum) {
      dx.store(k, [&](int i) { return scale * (product(widen(g[i]), widen(w[i])) - widen(v[i]) * slope); });
      sum.add([&](int i) { return widen(g[i]) * (widen(v[i]) * scale); });
    }, weight, grad, dweight);
  }
  dweight.write_sums(p.n, (W*)shared, own);
}
