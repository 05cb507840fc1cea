// Tiles of shared memory that are filled and freed in turn.
#ifndef KERNELZOO_SOFTMAX_RING_CUH
#define KERNELZOO_SOFTMAX_RING_CUH

#include "../row.cuh"

// Where in the ring the next tile lies, and how often it has come round.
struct RingPlace {
  int slot = 0;
  u32 parity = 0;

  __device__ void next(int slots) {
    if (++slot == slots) slot = 0, parity ^= 1;
  }
};

#endif
