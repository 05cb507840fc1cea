// Barriers in shared memory, bulk copies and clusters: for compute capability 9.0 and later.
#pragma once
#include "vector_io.cuh"

// The number of split_cluster's blocks per SM, of 512 threads. From compute capability 12.0 on, two would spill.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200
enum { SPLIT_BLOCKS = 1 };
#else
enum { SPLIT_BLOCKS = 2 };
#endif

__device__ inline void init_barrier(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}
__device__ inline void arrive_expecting(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Make a barrier that waits for `bytes` bytes. The block's first warp runs this; its first thread makes the barrier and
// arrives. Without the __syncwarp in between, compute-sanitizer reports a race.
__device__ inline void arm_barrier(u64* barrier, u32 bytes) {
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      init_barrier(barrier, 1);
      fence_barriers();
    }
    __syncwarp();
    if (threadIdx.x == 0) arrive_expecting(barrier, bytes);
    __syncwarp();
  }
}
__device__ inline void wait_for(u64* barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
}

// Copy contiguous device memory to shared memory, at multiples of 16 bytes. The barrier counts the bytes.
struct L2Policies {
  u64 keep, stream;
  __device__ L2Policies() {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(keep));
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(stream));
  }
};
__device__ inline void copy_bulk(void* to, const void* from, u32 bytes, u64* barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
      :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy) : "memory");
}

// Tell the cluster that this block runs, and that its barriers are initialised (fence_barriers). It is relaxed: a
// release would delay the first load until the whole device sees earlier writes.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Write 64 bits to the address `place` in the cluster's block `rank`. That block's barrier counts the bytes.
__device__ inline void send_remote(const void* place, u64* barrier, u32 rank, u64 value) {
  u32 to, counted;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(shared_address(barrier)), "r"(rank));
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
               :: "r"(to), "l"(value), "r"(counted) : "memory");
}
