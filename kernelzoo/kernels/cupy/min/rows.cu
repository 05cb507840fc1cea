// One block per row. It reduces each tile of the row to a scalar before it reads the next one.
#include "minima.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3) rows(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Word<T> slots[2][32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Word<T> running = identity_word<T>();
  int turn = 0;
  for (i64 j = 0; j < row.packs; j += ITEMS * blockDim.x, turn ^= 1) {
    const Word<T> tile = min_of_batch<ITEMS>(row, j + threadIdx.x, row.packs, blockDim.x);
    running = minimum(running, block_min<T>(tile, slots[turn]), T{});
  }
  running = minimum(running, block_min<T>(min_of_edges(row, threadIdx.x, blockDim.x), slots[turn]), T{});
  if (threadIdx.x == 0) store_minimum(row.out, running);
}
