// One block per row; each tile of it is reduced across the block before the next.

#include "minima.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3) rows(const Problem given) {
  const Problem p = begin(given);
  __shared__ Word<T> slots[2][32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Word<T> running = nothing<T>();
  int turn = 0;
  for (i64 j = 0; j < row.packs; j += ITEMS * blockDim.x, turn ^= 1) {
    const Word<T> tile = least_of_batch<ITEMS>(row, j + threadIdx.x, row.packs, blockDim.x);
    running = least(running, least_of_block<T>(tile, slots[turn]), T{});
  }
  running = least(running, least_of_block<T>(least_of_edges(row, threadIdx.x, blockDim.x), slots[turn]), T{});
  if (threadIdx.x == 0) put(row.out, running);
}
