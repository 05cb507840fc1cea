// Blocks of one row that leave their minima in device memory: the last to arrive reduces them.
#ifndef KERNELZOO_MIN_ARRIVAL_CUH
#define KERNELZOO_MIN_ARRIVAL_CUH

#include "../row.cuh"

// Whether this block is the last of `chunks` to say that what its threads wrote is there; the counter ends at zero
// again, ready for the next launch.
__device__ inline bool arrives_last(u32* arrived, int chunks) {
  __shared__ u32 before;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(arrived), "r"(chunks - 1) : "memory");
  }
  __syncthreads();
  return before == chunks - 1;
}

#endif
