// Blocks take rows in turn, in two passes each, and leave sums over their rows for the weight.
#include "../partials.cuh"

template <class T>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<3> given, const int lanes, const int across, Wide<T>* partial, const double eps) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const i64 blocks = (i64)gridDim.x * gridDim.y, together = (int)blockDim.x / lanes;
  W* sums = partial + block_index() * p.n;
  for (i64 k = threadIdx.x; k < p.n; k += blockDim.x) sums[k] = 0;
  for (i64 block = block_index(); block * together < p.rows; block += blocks) {
    const Lane lane(p, lanes, across, block);
    const auto x = line<const T, 0>(p, lane), weight = line<const T, 1>(p, lane), grad = line<const T, 2>(p, lane);
    const auto dx = line<T, 3>(p, lane);
    CompensatedSum<W> squares, products;
    for (i64 k = lane.first; k < lane.n; k += lane.step) {
      const W v = widen(x[k]);
      squares.add(v * v), products.add(v * (widen(grad[k]) * widen(weight[k])));
    }
    const W scale = 1 / sqrt(sum_over_lanes(squares.all(), shared, lane) / p.n + W(eps));
    const W slope = sum_over_lanes(products.all(), shared, lane) / p.n * scale * scale;
    for (i64 from = 0; from < p.n; from += lane.step) {  // as often in all threads, which meet
      const i64 k = from + lane.first;
      W term = 0;
      if (k < lane.n) {
        const W v = widen(x[k]), g = widen(grad[k]);
        narrow(scale * (g * widen(weight[k]) - v * slope), dx[k]);
        term = g * (v * scale);
      }
      add_rows(sums, k, p.n, term, shared, lane);
    }
  }
}
