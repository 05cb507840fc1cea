// The CLUSTER blocks of a thread-block cluster read a row once, into registers and shared memory. Needs sm_90.
//
// A thread keeps ITEMS packs of grad in registers, and of y in shared memory. It reads only what it copied itself, so
// there is no barrier. Every warp writes its sum into every block's shared memory, where a barrier counts the bytes.
#include "../hopper.cuh"
#include "gradient.cuh"

template <class T, int V, int ITEMS, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(512, SPLIT_BLOCKS)
    split_cluster(const MultiInput<1> given) {
  using W = Wide<T>;
  using Op = Gradient<T>;
  extern __shared__ Bytes16 memory[];
  __shared__ u64 slots[CLUSTER * 16];
  __shared__ u64 barrier;
  const i64 r = block_index() / CLUSTER;
  if (r >= given.rows) return;  // uniform in the cluster
  const int lanes = CLUSTER * blockDim.x, warps = blockDim.x / 32;
  arm_barrier(&barrier, CLUSTER * warps * sizeof(u64));
  cluster_arrive();
  const MultiInput<1> p = wait_for_previous_launch(given);
  const int rank = cluster_rank(), lane = rank * blockDim.x + threadIdx.x;
  const MultiInputRow<T, V> line(p, r);
  const auto walk = line.walk(lane, line.packs, lanes);
  const auto at_edge = line.edge(lane);
  Bytes16* mine = memory + threadIdx.x;  // y, interleaved by thread
  if (walk.in_packed) {
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      if (walk.inside(i)) copy_async(mine + i * (int)blockDim.x, walk.in[1] + i * walk.in_step[1]);
    }
  } else {
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      if (walk.inside(i)) mine[i * (int)blockDim.x] = walk.load_unaligned(1, i).raw;
    }
  }
  Pack<T, V> grad[ITEMS], y;
  UNROLL for (int i = 0; i < ITEMS; ++i) grad[i] = walk.template load<true>(0, i);
  typename Op::template Packs<1, 1, 1> edge;
  edge.template load<true>(at_edge, line.key, 0);
  wait_async();

  W a[V], b[V], all[1];
  edge.sum(all);
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    if (walk.inside(i)) {
      y.raw = mine[i * (int)blockDim.x];
      grad[i].get(a);
      y.get(b);
      UNROLL for (int k = 0; k < V; ++k) a[k] = product(a[k], b[k]);
      all[0] += sum_of(a);
    }
  }
  const W warp = warp_sum<32>(all[0]);
  cluster_wait();  // all blocks of the cluster run now, so their shared memory may be written
  const int peer = threadIdx.x & 31;
  u64 bits = 0;
  *(W*)&bits = warp;
  if (peer < CLUSTER) send_remote(&slots[rank * warps + threadIdx.x / 32], &barrier, peer, bits);
  wait_for(&barrier, 0);
  W total = 0;
  for (int k = peer; k < CLUSTER * warps; k += 32) total += *(const W*)&slots[k];
  total = warp_sum<32>(total);

  UNROLL for (int i = 0; i < ITEMS; ++i) {
    if (walk.inside(i)) {
      y.raw = mine[i * (int)blockDim.x];
      grad[i].get(a);
      y.get(b);
      UNROLL for (int k = 0; k < V; ++k) a[k] = product(b[k], a[k] - total);
      y.set(a);
      y.template store<true>(walk.out + i * walk.out_step, walk.out_packed);
    }
  }
  const W result[1] = {total};
  edge.template write<true>(at_edge, result, 0);
}
