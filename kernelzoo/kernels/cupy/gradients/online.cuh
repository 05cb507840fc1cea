// One block per row of any length, in two passes. The first adds up. The second reads the row again and writes.
#pragma once
#include "multi_input.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int ONLINE_BLOCKS = 1;  // per SM, of 512 threads: with two, the compiler would spill
#else
constexpr int ONLINE_BLOCKS = 2;
#endif

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, ONLINE_BLOCKS) online(const MultiInput<Gradient<T>::OTHERS> given) {
  using Op = Gradient<T>;
  const auto p = wait_for_previous_launch(given);
  using Total = typename Op::Total;
  __shared__ Total slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const MultiInputRow<T, V> line(p, r);
  const auto walk = line.walk(threadIdx.x, line.packs, blockDim.x);
  const auto at_edge = line.edge(threadIdx.x);
  typename Op::template Packs<V, 1, ITEMS> batch;
  typename Op::template Packs<1, 1, 1> edge;
  CompensatedSum<Total> run;
  Total sums[1];
  i64 i = 0;
  for (; walk.inside(i); i += ITEMS) {
    batch.template load<false>(walk, line.key, i);
    batch.sum(sums);
    run.add(sums[0]);
  }
  if constexpr (V > 1) {
    edge.template load<false>(at_edge, line.key, 0);
    edge.sum(sums);
    run.add(sums[0]);
  }
  const typename Op::Result result[1] = {Op::result(line.key[0], block_sum(run.all(), slots))};
  // Backwards, because the elements read last are the most likely to be cached.
  while (i > 0) {
    i -= ITEMS;
    batch.template load<false>(walk, line.key, i);
    batch.template write<false>(walk, result, i);
  }
  if constexpr (V > 1) edge.template write<false>(at_edge, result, 0);
}
