// A pair on its way to another block of a cluster. Of compute capability 9.0.
#ifndef KERNELZOO_SOFTMAX_SEND_CUH
#define KERNELZOO_SOFTMAX_SEND_CUH

#include "pairs.cuh"

template <class W>
__device__ inline void send_pair(Pair<W>* place, u64* barrier, u32 rank, const Pair<W>& pair) {
  const u64* words = (const u64*)&pair;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(pair) / 8); ++i) send_remote((u64*)place + i, barrier, rank, words[i]);
}

#endif
