// The gradient by a sum that is known: a block to a share of a row, one read, one write.
#ifndef KERNELZOO_GRADIENTS_FINISH_CUH
#define KERNELZOO_GRADIENTS_FINISH_CUH

#include "gradients.cuh"

// Op::known(p, outer, inner, key): the row's Result.
template <class Op, int V, int ITEMS>
__device__ inline void finish_shares(const Several<Op::OTHERS>& given, const int shares) {
  const Several<Op::OTHERS> p = begin(given);
  // Backwards: what the first pass read last is likeliest to be in L2 still.
  const i64 block = p.rows * shares - 1 - block_index();
  if (block < 0) return;
  const i64 r = block / shares, share = block - r * shares;
  const Line<Op, V> line(p, r);
  const auto walk = line.walk(share * ITEMS * (int)blockDim.x + threadIdx.x, line.packs, blockDim.x);
  typename Op::template Held<V, 1, ITEMS> held;
  held.template load<false>(walk, line.key, 0);
  i64 outer, inner;
  number(p, r, outer, inner);
  const typename Op::Result result[1] = {Op::known(p, outer, inner, line.key[0])};
  held.template write<false>(walk, result, 0);
  if constexpr (V > 1) {
    if (share == 0) {
      const auto at_edge = line.edge(threadIdx.x);
      typename Op::template Held<1, 1, 1> edge;
      edge.template load<false>(at_edge, line.key, 0);
      edge.template write<false>(at_edge, result, 0);
    }
  }
}

#endif
