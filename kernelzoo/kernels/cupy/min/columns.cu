// Columns: each block reduces a tile of at most `step` adjacent columns.
#include "column_tile.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, 2)
    columns(const Problem given, const i64 tiles, const int step, const int x_lanes, const int depths) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Bytes16 memory[V > 1 ? 512 : 512 * sizeof(T) / 16];
  __shared__ Word<T> slots[512];
  T* places = (T*)memory;
  const i64 at = block_index(), outer = at / tiles, first = (at - outer * tiles) * step;
  const int wide = p.inner - first < step ? (int)(p.inner - first) : step;
  const i64 outermost = (i64)((double)p.rows * p.inner_inverse + 0.5) - 1;
  if (outer > outermost) return;
  const T* x = (const T*)p.x;
  const T* x_end = x + outermost * p.x_outer + (p.n - 1) * p.x_n + p.inner;
  x += outer * p.x_outer + first * p.x_inner;

  const Tile<T, V> tile{x, x_end, p.n, p.x_n, p.x_inner, wide, x_lanes, depths};
  tile.template reduce_lines<ITEMS>(places);
  tile.reduce_rows(places, slots, (T*)p.out + outer * p.out_outer + first * p.out_inner, p.out_inner);
}
