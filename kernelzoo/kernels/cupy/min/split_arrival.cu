// Several blocks share a row and store partial minima. The last to finish merges these.
#include "minima.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3)
    split_arrival(const Problem given, Word<T>* partial, u32* arrived, const int chunks) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Word<T> slots[2][32];
  const i64 block = block_index(), r = block / chunks;
  if (r >= p.rows) return;
  const int chunk = (int)(block % chunks);
  const Row<T, V> row(p, r);
  const i64 share = (row.packs + chunks - 1) / chunks, end = (chunk + 1) * share;
  const i64 to = end < row.packs ? end : row.packs;
  Word<T> running = chunk == 0 ? min_of_edges(row, threadIdx.x, blockDim.x) : identity_word<T>();
  for (i64 j = chunk * share + threadIdx.x; j < to; j += ITEMS * blockDim.x) {
    running = minimum(running, min_of_batch<ITEMS>(row, j, to, blockDim.x), T{});
  }
  running = block_min<T>(running, slots[0]);
  Word<T>* row_partial = partial + r * chunks;
  if (threadIdx.x == 0) row_partial[chunk] = running;
  if (!arrives_last(arrived + r, chunks)) return;
  running = identity_word<T>();
  for (int k = threadIdx.x; k < chunks; k += blockDim.x) running = minimum(running, row_partial[k], T{});
  running = block_min<T>(running, slots[1]);
  if (threadIdx.x == 0) store_minimum(row.out, running);
}
