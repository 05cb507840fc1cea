// What multi_row_thread and multi_row_lanes have in common, beside ../thread_rows.cuh.
#ifndef KERNELZOO_SOFTMAX_WHOLE_ROWS_CUH
#define KERNELZOO_SOFTMAX_WHOLE_ROWS_CUH

#include "../thread_rows.cuh"
#include "pairs.cuh"

// Of a sum of exponentials, of which the largest is 1: without the branch that a division has for subnormal numbers.
__device__ inline float reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return fmaf(r, fmaf(-s, r, 1.0f), r);
}

#endif
