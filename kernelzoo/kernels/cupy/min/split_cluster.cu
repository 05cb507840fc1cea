// A cluster per row: every warp sends its minimum to the first block through distributed shared memory.

#include "../split_blocks.cuh"
#include "minima.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, SPLIT_BLOCKS) split_cluster(const Problem given) {
  __shared__ u64 met, slots[16 * 16];
  if (threadIdx.x == 0) {
    init_barrier(&met, 1);
    fence_barriers();
  }
  cluster_arrive();
  const Problem p = begin(given);
  const int parts = cluster_size(), part = cluster_rank(), warps = blockDim.x / 32, lane = threadIdx.x & 31;
  const i64 r = block_index() / parts;
  if (r >= p.rows) return;  // the whole cluster alike
  const Row<T, V> row(p, r);
  const i64 share = (row.packs + parts - 1) / parts, end = (part + 1) * share;
  const i64 to = end < row.packs ? end : row.packs;
  Word<T> running = part == 0 ? least_of_edges(row, threadIdx.x, blockDim.x) : nothing<T>();
  for (i64 j = part * share + threadIdx.x; j < to; j += ITEMS * blockDim.x) {
    running = least(running, least_of_batch<ITEMS>(row, j, to, blockDim.x), T{});
  }
  running = least_of_lanes<T, 32>(running);
  cluster_wait();
  if (lane == 0) send_remote(&slots[part * warps + threadIdx.x / 32], &met, 0, running);
  if (part != 0 || threadIdx.x >= 32) return;
  if (threadIdx.x == 0) arrive_expecting(&met, parts * warps * 8);
  wait_for(&met, 0);
  for (int k = lane; k < parts * warps; k += 32) running = least(running, (Word<T>)slots[k], T{});
  running = least_of_lanes<T, 32>(running);
  if (lane == 0) put(row.out, running);
}

#endif
