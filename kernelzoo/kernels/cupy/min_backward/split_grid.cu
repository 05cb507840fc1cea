// `chunks` blocks of a co-operative launch share a row, and wait for each other's counts. A thread keeps the bits of
// ITEMS packs in registers, and those of `saved` batches of BATCH packs in shared memory. It reads the remaining packs
// twice, the second time most likely from L2.
#include "gradient.cuh"

template <class T, int V, int ITEMS, int BATCH>
__global__ void __launch_bounds__(512, 1)
    split_grid(const MultiInput<2> given, u64* partial, u64* arrived, const int chunks, const int saved) {
  const MultiInput<2> p = wait_for_previous_launch(given);
  using Op = Gradient<T>;
  extern __shared__ Bytes16 memory[];
  __shared__ u64 slots[32];
  const int group = blockIdx.x / chunks, chunk = blockIdx.x % chunks, groups = gridDim.x / chunks;
  for (i64 r = group; r < p.rows; r += groups) {
    const MultiInputRow<T, V> line(p, r);
    const i64 share = (line.packs + chunks - 1) / chunks, end = (chunk + 1) * share;
    const auto walk = line.walk(chunk * share + threadIdx.x, end < line.packs ? end : line.packs, blockDim.x);
    auto at_edge = line.edge(threadIdx.x);
    if (chunk > 0) at_edge.left = 0;

    StagedPacks<T, V, 1, ITEMS, BATCH> staged;
    CompensatedSum<u64> run[1];
    staged.accumulate(walk, line.key, run, memory, saved);
    typename Op::template Packs<1, 1, 1> edge;
    if constexpr (V > 1) {
      u64 last[1];
      edge.template load<true>(at_edge, line.key, 0);
      edge.sum(last);
      run[0].add(last[0]);
    }

    const u64 block = block_sum(run[0].all(), slots);
    u64* row_partial = partial + r * chunks;
    if (threadIdx.x == 0) row_partial[chunk] = block;
    grid_barrier(arrived + r, chunks);
    const typename Op::Result result[1] = {Op::result(line.key[0], sum_of_slots(row_partial, chunks))};
    staged.write(walk, line.key, result, memory, saved);
    if constexpr (V > 1) edge.template write<true>(at_edge, result, 0);
  }
}
