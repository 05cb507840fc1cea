// One pass: the sum of each row, or of each part of one. A block to a row, or a warp to a short one.
#ifndef KERNELZOO_GRADIENTS_SUMS_CUH
#define KERNELZOO_GRADIENTS_SUMS_CUH

#include "gradients.cuh"

template <class Op, int V, int ITEMS, int WARP_A_ROW>
__device__ inline void sums_of_rows(const Several<Op::OTHERS>& given) {
  const Several<Op::OTHERS> p = begin(given);
  using Total = typename Op::Total;
  using W = Wide<typename Op::T>;
  __shared__ Total slots[32];
  const int lanes = WARP_A_ROW ? 32 : (int)blockDim.x;
  const i64 r = block_index() * ((int)blockDim.x / lanes) + threadIdx.x / lanes;
  if (r >= p.rows) return;  // all lanes of a row
  const int lane = threadIdx.x % lanes;
  const Line<Op, V> line(p, r);
  const auto walk = line.walk(lane, line.packs, lanes);
  typename Op::template Held<V, 1, ITEMS> batch;
  Running<Total> run;
  Total sums[1];
  for (i64 i = 0; walk.inside(i); i += ITEMS) {
    batch.template load<false>(walk, line.key, i);
    batch.sum(sums);
    run.add(sums[0]);
  }
  if constexpr (V > 1) {
    typename Op::template Held<1, 1, 1> edge;
    edge.template load<false>(line.edge(lane), line.key, 0);
    edge.sum(sums);
    run.add(sums[0]);
  }
  const Total all = WARP_A_ROW ? sum_of_lanes<32>(run.all()) : sum_of_block(run.all(), slots);
  if (lane == 0) {
    i64 outer, inner;
    number(p, r, outer, inner);
    ((W*)p.out)[outer * p.out_outer + inner * p.out_inner] = (W)all;
  }
}

#endif
