// How the pairs of neighbouring rows meet within a cluster. Of compute capability 9.0.
#ifndef KERNELZOO_SOFTMAX_MEETING_CUH
#define KERNELZOO_SOFTMAX_MEETING_CUH

#include "running.cuh"
#include "send.cuh"

// The pairs of a block's `wide` neighbouring rows, in shared memory: those of each of its `groups` of threads, those of
// each block of the cluster, and what finishes the rows.
template <class T>
struct Meeting {
  Pair<Wide<T>>*slots, *peers, *finishers;
  u64* met;
  int groups, wide;

  // `met` counts the bytes that all blocks of the cluster will send here. cluster_arrive() and, in finish(),
  // cluster_wait() put its making, in every block, before the first of them; loads may be issued between the two. One
  // thread makes it and arrives at it: compute-sanitizer takes that for a race unless a warp's barrier stands between.
  __device__ Meeting(void* at, u64* met, int groups, int wide)
      : slots((Pair<Wide<T>>*)at), peers(slots + groups * wide), finishers(peers + cluster_size() * wide), met(met),
        groups(groups), wide(wide) {
    if (cluster_size() > 1) {
      if (threadIdx.x == 0) {
        init_barrier(met, 1);
        fence_barriers();
      }
      __syncwarp();
      if (threadIdx.x == 0) arrive_expecting(met, cluster_size() * wide * sizeof(Pair<Wide<T>>));
    }
    cluster_arrive();
  }

  // From the slots, which the block's threads have written, to the finishers, which all of them may then read. Every
  // place is written once a launch, so that no one has to wait before writing; and no block ends before all that is
  // sent to it has come, since its threads pass the last barrier behind those that waited for it.
  __device__ void finish() {
    const int parts = cluster_size(), part = cluster_rank();
    __syncthreads();
    cluster_wait();
    if (parts > 1) {
      for (int k = threadIdx.x; k < parts * wide; k += blockDim.x) {  // a row of a block, to one of them
        const int row = k % wide;
        const Pair<Wide<T>> all = merged(slots + row, groups);
        send_pair(&peers[part * wide + row], met, k / wide, all);
      }
    }
    for (int row = threadIdx.x; row < wide; row += blockDim.x) {
      if (parts > 1) wait_for(met, 0);
      finishers[row] = finisher<T>(parts > 1 ? merged(peers + row, parts) : merged(slots + row, groups));
    }
    __syncthreads();
  }

  __device__ Pair<Wide<T>> merged(const Pair<Wide<T>>* pairs, int count) const {
    Wide<T> top = lowest<Wide<T>>(), sum = 0;
    for (int k = 0; k < count; ++k) top = larger(top, pairs[k * wide].m);
    const Wide<T> shift = zero_if_empty(top);
    for (int k = 0; k < count; ++k) sum += pairs[k * wide].s * exponential(pairs[k * wide].m - shift);
    return {top, sum};
  }
};

#endif
