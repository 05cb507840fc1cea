// One block per row, which stays in registers.
#ifndef KERNELZOO_GRADIENTS_FUSED_CUH
#define KERNELZOO_GRADIENTS_FUSED_CUH

#include "gradients.cuh"

template <class Op, int V, int ITEMS>
__device__ inline void row_of_block(const Several<Op::OTHERS>& given) {
  const Several<Op::OTHERS> p = begin(given);
  using Total = typename Op::Total;
  __shared__ Total slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Line<Op, V> line(p, r);
  HeldLine<Op, V, ITEMS, (V > 1)> held;
  held.load(line, threadIdx.x, blockDim.x);
  held.write(Op::result(line.key[0], sum_of_block(held.sum(), slots)));
}

#endif
