// Blocks take rows in turn, in three passes each, and leave sums over their rows for the weight and the bias.
#include "../partials.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<4> given, const int lanes, const int across, Wide<T>* partial, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const i64 blocks = (i64)gridDim.x * gridDim.y, together = (int)blockDim.x / lanes;
  W *weights = partial + block_index() * p.n, *biases = weights + blocks * p.n;
  for (i64 k = threadIdx.x; k < p.n; k += blockDim.x) weights[k] = biases[k] = 0;
  for (i64 block = block_index(); block * together < p.rows; block += blocks) {
    const Lane lane(p, lanes, across, block);
    const auto x = line<const T, 0>(p, lane), weight = line<const T, 1>(p, lane), grad = line<const T, 2>(p, lane);
    const auto dx = line<T, 3>(p, lane);
    CompensatedSum<W> sum, squares, pulls, products;
    for (i64 k = lane.first; k < lane.n; k += lane.step) sum.add(widen(x[k]));
    const W mean = sum_over_lanes(sum.all(), shared, lane) / p.n;
    for (i64 k = lane.first; k < lane.n; k += lane.step) {
      const W away = widen(x[k]) - mean, pulled = widen(grad[k]) * widen(weight[k]);
      squares.add(away * away), pulls.add(pulled), products.add(pulled * away);
    }
    const W scale = 1 / sqrt(sum_over_lanes(squares.all(), shared, lane) / p.n + W(eps));
    const W pull = sum_over_lanes(pulls.all(), shared, lane) / p.n;
    const W slope = sum_over_lanes(products.all(), shared, lane) / p.n * scale;
    for (i64 from = 0; from < p.n; from += lane.step) {  // as often in all threads, which meet
      const i64 k = from + lane.first;
      W g = 0, u = 0;
      if (k < lane.n) {
        g = widen(grad[k]), u = (widen(x[k]) - mean) * scale;
        narrow(scale * (g * widen(weight[k]) - pull - u * slope), dx[k]);
      }
      add_rows(weights, k, p.n, g * u, shared, lane);
      add_rows(biases, k, p.n, g, shared, lane);
    }
  }
}
