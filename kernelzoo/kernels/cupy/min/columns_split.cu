// Columns: `chunks` blocks share a tile of at most `step` adjacent columns. Each reduces `share` lines and stores their
// minima in memory. The last block to finish reduces these minima as another tile.
#include "column_tile.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3)
    columns_split(const Problem given, T* partial, u32* arrived, const int chunks, const i64 share, const i64 tiles,
                  const int step, const int x_lanes, const int depths) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Bytes16 memory[V > 1 ? 512 : 512 * sizeof(T) / 16];
  __shared__ Word<T> slots[512];
  T* places = (T*)memory;
  // Blocks that share columns are so few that 32-bit numbers suffice.
  const i64 at = blockIdx.x / (u32)chunks, outer = (u32)at / (u32)tiles;
  const i64 first = (at - outer * tiles) * step;
  const int chunk = blockIdx.x - (u32)at * chunks;
  const int wide = p.inner - first < step ? (int)(p.inner - first) : step;
  const i64 from = chunk * share, length = p.n - from < share ? p.n - from : share;
  const i64 outermost = (i64)((double)p.rows * p.inner_inverse + 0.5) - 1;
  if (outer > outermost) return;
  const T* x = (const T*)p.x;
  const T* x_end = x + outermost * p.x_outer + (p.n - 1) * p.x_n + p.inner;
  x += outer * p.x_outer + from * p.x_n + first * p.x_inner;

  Tile<T, V> tile{x, x_end, length, p.x_n, p.x_inner, wide, x_lanes, depths};
  for (bool shared = true;; shared = false) {  // a loop, so that both reductions are one piece of code
    tile.template reduce_lines<ITEMS>(places);
    if (!shared) break;
    const int pitch = x_lanes * V, beyond = wide + threadIdx.x;
    T *all = partial + at * chunks * pitch, *mine = all + chunk * pitch;
    tile.reduce_rows(places, slots, mine, 1);
    // Fill the rest of the last vector.
    if (threadIdx.x + 1 < V && beyond < pitch) store_minimum(mine + beyond, identity_word<T>());
    if (!arrives_last(arrived + at, chunks)) return;
    asm volatile("" : "+l"(all) :: "memory");  // the compiler must move no load ahead of arrives_last
    tile = {all, all + chunks * pitch, chunks, pitch, 1, wide, x_lanes, depths};
  }
  tile.reduce_rows(places, slots, (T*)p.out + outer * p.out_outer + first * p.out_inner, p.out_inner);
}
