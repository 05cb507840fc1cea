// One block per row. Each thread keeps a running minimum, and the block merges these once, at the end.
#include "minima.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024, 1) rows_deferred_block(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Word<T> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Word<T> running = min_of_edges(row, threadIdx.x, blockDim.x);
  for (i64 j = threadIdx.x; j < row.packs; j += ITEMS * blockDim.x) {
    running = minimum(running, min_of_batch<ITEMS>(row, j, row.packs, blockDim.x), T{});
  }
  running = block_min<T>(running, slots);
  if (threadIdx.x == 0) store_minimum(row.out, running);
}
