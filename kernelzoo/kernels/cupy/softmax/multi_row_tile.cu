// LANES lanes per row, ROWS rows per group of lanes, all of them loaded before the first is used.

#include "held.cuh"

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const Problem given) {
  const Problem p = begin(given);
  constexpr int GROUPS = 128 / LANES;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  Held<T, V, ITEMS, EDGES> held[ROWS];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {  // for one k, neighbouring groups take neighbouring rows
    const i64 r = first + k * GROUPS;
    const bool live = r < p.rows;
    held[k].load(Row<T, V>(p, live ? r : 0), lane, LANES, live);
  }
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const i64 r = first + k * GROUPS;
    Pair<Wide<T>> own;
    const auto all = merge_held<LANES>(held[k], own);  // by all lanes of the warp, the row past the end included
    if (r < p.rows) held[k].write(Row<T, V>(p, r), lane, LANES, own, all);
  }
}
