// Short rows: a warp, a part of a warp or a thread loads a complete row before it compares the first element.
#include "minima.cuh"

// LANES lanes per row of at most LANES * ITEMS packs and LANES * EDGES edge elements; ROWS rows per group of lanes.
template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 8) rows_deferred_lanes(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  constexpr int GROUPS = 128 / LANES;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  if (block_index() * ROWS * GROUPS >= p.rows) return;
  Word<T> w[ROWS][ITEMS + EDGES];
  Bytes16 raw[ROWS][ITEMS];
  UNROLL for (int k = 0; k < ROWS; ++k) {  // at each k, adjacent groups take adjacent rows
    const i64 r = first + k * GROUPS;
    Row<T, V> row(p, r < p.rows ? r : p.rows - 1);  // past the end, read the last row again
    if (V == 1 && LANES == 1) row.packs = ITEMS;  // a constant, for the compiler
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * LANES;
      if constexpr (V > 1) {
        raw[k][i] = identity_pack<T>();
        if (j < row.packs) raw[k][i] = load_once(row.x + row.head + j * V);
      } else {  // past the end, read the last element again: no load needs a predicate
        w[k][i] = broadcast(row.x + (j < row.packs ? j : row.packs - 1) * row.x_n);
      }
    }
    UNROLL for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * LANES;
      w[k][ITEMS + i] = identity_word<T>();
      if (e < row.edges) w[k][ITEMS + i] = broadcast(row.x + row.edge(e));
    }
  }
  UNROLL for (int k = 0; k < ROWS; ++k) {
    const i64 r = first + k * GROUPS;
    Word<T> row_min = identity_word<T>();
    UNROLL for (int i = 0; i < ITEMS + EDGES; ++i) {
      if (V > 1 && i < ITEMS) w[k][i] = min_of_pack<T>(raw[k][i]);
      row_min = minimum(row_min, w[k][i], T{});
    }
    row_min = warp_min<T, LANES>(row_min);
    if (lane == 0 && r < p.rows) store_minimum(Row<T, V>(p, r).out, row_min);
  }
}
