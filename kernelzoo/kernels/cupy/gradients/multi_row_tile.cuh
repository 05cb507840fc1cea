// LANES lanes per row, ROWS rows per group of lanes, all of them loaded before the first is used.
#ifndef KERNELZOO_GRADIENTS_MULTI_ROW_TILE_CUH
#define KERNELZOO_GRADIENTS_MULTI_ROW_TILE_CUH

#include "gradients.cuh"

template <class Op, int V, int LANES, int ITEMS, int ROWS, bool EDGES>
__device__ inline void rows_of_block(const Several<Op::OTHERS>& given) {
  const Several<Op::OTHERS> p = begin(given);
  using Total = typename Op::Total;
  constexpr int GROUPS = 128 / LANES;
  constexpr bool ALONE = V == 1 && LANES == 1;  // a thread has ITEMS elements of its row: all that there are
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  HeldLine<Op, V, ITEMS, EDGES> held[ROWS];
  typename Op::Key key[ROWS];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {  // for one k, neighbouring groups take neighbouring rows
    const i64 r = first + k * GROUPS;
    const bool live = r < p.rows;
    Line<Op, V> line(p, live ? r : 0);
    if (ALONE) line.packs = ITEMS;
    key[k] = line.key[0];
    held[k].load(line, lane, LANES, ALONE || live);
  }
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const Total total = sum_of_lanes<LANES>(held[k].sum());  // by all lanes of the warp, a row past the end included
    if (!ALONE || first + k * GROUPS < p.rows) held[k].write(Op::result(key[k], total));
  }
}

#endif
