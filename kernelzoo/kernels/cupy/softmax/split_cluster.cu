// The CLUSTER blocks of a thread-block cluster read a row once, into registers. Needs compute capability 9.0.
//
// Every warp sends its pair to every block, where a barrier counts the bytes. After Quack (github.com/Dao-AILab/quack).
#include "../hopper.cuh"
#include "register_row.cuh"

template <class W>
__device__ inline void send_pair(Pair<W>* place, u64* barrier, u32 rank, const Pair<W>& pair) {
  const u64* words = (const u64*)&pair;
  UNROLL for (int i = 0; i < (int)(sizeof(pair) / 8); ++i) send_remote((u64*)place + i, barrier, rank, words[i]);
}

template <class T, int V, int ITEMS, int CLUSTER, bool EXACT = false>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(512, SPLIT_BLOCKS)
    split_cluster(const Problem given) {
  using W = Wide<T>;
  __shared__ alignas(16) Pair<W> slots[CLUSTER * 16];
  __shared__ i64 sums[CLUSTER * 16];
  __shared__ u64 barrier, sums_barrier;
  const i64 r = block_index() / CLUSTER;
  if (r >= given.rows) return;  // uniform in the cluster
  const int lanes = CLUSTER * blockDim.x, warps = blockDim.x / 32;
  arm_barrier(&barrier, CLUSTER * warps * sizeof(Pair<W>));
  if constexpr (EXACT) arm_barrier(&sums_barrier, CLUSTER * warps * 8);
  cluster_arrive();
  const Problem p = wait_for_previous_launch(given);
  const int rank = cluster_rank(), lane = rank * blockDim.x + threadIdx.x;
  const Row<T, V> row(p, r);
  using Held = RegisterRow<T, V, ITEMS, (V > 1), EXACT>;
  Held held;
  held.load(row, lane, lanes);
  if constexpr (EXACT) {  // first find the row's maximum, then the sum
    W top = Held::template row_max<32>(held.top());
    cluster_wait();
    const int peer = threadIdx.x & 31, place = rank * warps + threadIdx.x / 32;
    if (peer < CLUSTER) send_pair(&slots[place], &barrier, peer, Pair<W>{top, 0});
    wait_for(&barrier, 0);
    for (int k = peer; k < CLUSTER * warps; k += 32) top = maximum<true>(top, slots[k].m);
    const auto own = held.exponentials(Held::template row_max<32>(top));
    const i64 sum = warp_sum<32>(own.s);
    if (peer < CLUSTER) send_remote(&sums[place], &sums_barrier, peer, sum);
    wait_for(&sums_barrier, 0);
    held.write(row, lane, lanes, own, row_pair(own.m, sum_of_slots(sums, CLUSTER * warps)));
  } else {
    const auto own = held.exponentials();
    const auto warp = warp_merge<32>(own);
    cluster_wait();  // all blocks of the cluster run now, so their shared memory may be written
    const int peer = threadIdx.x & 31;
    if (peer < CLUSTER) send_pair(&slots[rank * warps + threadIdx.x / 32], &barrier, peer, warp);
    wait_for(&barrier, 0);
    held.write(row, lane, lanes, own, merge_slots(slots, CLUSTER * warps));
  }
}
