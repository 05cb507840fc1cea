// Blocks loop over rows, and store the sums over these rows for the gradients of weight and bias.
#include "../partials.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<4> given, const int lanes, const int across, Wide<T>* partial, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ Sums<W, 3> shared[THREADS];
  const Lane own(p, lanes, V == 1 && across);
  const MultiPassRow<T, V, ITEMS> weight(line<T, 1, V>(p, own), own);
  SumsOverRows<W, V, ITEMS> dweight(partial, 0, p.n, own), dbias(partial, 1, p.n, own);
  for (i64 block = block_index(); p.rows > block * own.rows; block += (i64)gridDim.x * gridDim.y) {
    const Lane lane(p, lanes, V == 1 && across, block);
    MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
    const MultiPassRow<T, V, ITEMS> grad(line<T, 2, V>(p, lane), lane);
    const auto dx = line<T, 3, V>(p, lane);
    CompensatedSum<W> sum, squares, pulls, products;
    x.each([&](const auto& v, i64) { sum.add(sum_of_terms(v, [](T e) { return widen(e); })); });
    const W mean = quotient(sum_over_lanes(sum.all(), (W*)shared, lane), p.n);
    x.each([&](const auto& v, i64, const auto& w, const auto& g) {
      const auto away = [&](int i) { return widen(v[i]) - mean; };
      const auto pull = [&](int i) { return product(widen(g[i]), widen(w[i])); };
      squares.add(sum_of_terms<V>([&](int i) { return away(i) * away(i); }));
      pulls.add(sum_of_terms<V>(pull));
      products.add(sum_of_terms<V>([&](int i) { return pull(i) * away(i); }));
    }, weight, grad);
    const auto all = sum_over_lanes(Sums<W, 3>{squares.all(), pulls.all(), products.all()}, shared, lane);
    const W scale = inverse_root(quotient(all.of[0], p.n) + W(eps));
    const W pull = quotient(all.of[1], p.n), slope = quotient(all.of[2], p.n) * scale;
    x.each([&](const auto& v, i64 k, const auto& w, const auto& g, auto&& of_weight, auto&& of_bias) {
      const auto unit = [&](int i) { return (widen(v[i]) - mean) * scale; };
      dx.store(k, [&](int i) { return scale * (product(widen(g[i]), widen(w[i])) - pull - unit(i) * slope); });
      of_weight.add([&](int i) { return widen(g[i]) * unit(i); });
      of_bias.add([&](int i) { return widen(g[i]); });
    }, weight, grad, dweight, dbias);
  }
  dweight.write_sums(p.n, (W*)shared, own), dbias.write_sums(p.n, (W*)shared, own);
}
