// Blocks that run side by side, of a co-operative launch, wait for each other.
#ifndef KERNELZOO_MEET_CUH
#define KERNELZOO_MEET_CUH

#include "row.cuh"

// Block `chunk` of `chunks` has left what it has of a row in memory, by its first threads; returns once all blocks of the same
// row have. `arrived` only ever grows, by `chunks` a launch, so that it needs no reset.
__device__ inline void meet(u64* arrived, int chunks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    u64 now;
    const u64 complete = (count_up(arrived) / chunks + 1) * chunks;
    do {
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(arrived) : "memory");
    } while (now < complete);
  }
  __syncthreads();
}

#endif
