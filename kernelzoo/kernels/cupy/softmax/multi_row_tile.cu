// LANES lanes per row, ROWS rows per group of lanes. All rows are loaded before the first one is used.
#include "register_row.cuh"

// Row r. If a thread has a complete row without packs, its length is ITEMS, which is a constant for the compiler.
template <class T, int V, int LANES, int ITEMS>
__device__ inline Row<T, V> row_of(const Problem& p, i64 r) {
  Row<T, V> row(p, r);
  if (V == 1 && LANES == 1) row.packs = ITEMS;
  return row;
}

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES, bool EXACT = false>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  constexpr int GROUPS = 128 / LANES;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  using Held = RegisterRow<T, V, ITEMS, EDGES, EXACT>;
  Held held[ROWS];
  UNROLL for (int k = 0; k < ROWS; ++k) {  // at each k, adjacent groups take adjacent rows
    const i64 r = first + k * GROUPS;
    const bool live = r < p.rows;
    held[k].load(row_of<T, V, LANES, ITEMS>(p, live ? r : 0), lane, LANES, live);
  }
  UNROLL for (int k = 0; k < ROWS; ++k) {
    const i64 r = first + k * GROUPS;
    typename Held::State own;
    // All lanes of the warp do this, even if the row is past the end.
    const auto all = merge_row_by_lanes<LANES>(held[k], own);
    if (r < p.rows) held[k].write(row_of<T, V, LANES, ITEMS>(p, r), lane, LANES, own, all);
  }
}
