// What both operations' split_cluster are bound to: blocks of 512 threads on an SM. Of compute capability 9.0.
#ifndef KERNELZOO_SPLIT_BLOCKS_CUH
#define KERNELZOO_SPLIT_BLOCKS_CUH

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200
constexpr int SPLIT_BLOCKS = 1;  // two would spill
#else
constexpr int SPLIT_BLOCKS = 2;
#endif

#endif
