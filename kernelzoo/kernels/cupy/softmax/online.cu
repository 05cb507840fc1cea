// One block per row of any length, in two passes. The first keeps a running pair. The second reads again and writes.
#include "online_update.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, sizeof(T) == 8 ? 1 : 2) online(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ Pair<W> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  const int step = ITEMS * (int)blockDim.x;
  RunningPair<W> run;
  Pack<T, V> items[ITEMS];
  W edge;
  for (i64 j = threadIdx.x; j < row.packs; j += step) {
    load_batch(items, row, j, row.packs);
    online_update(run, items);
  }
  online_update_edge(run, row, edge);
  const auto all = block_merge(run.all(), slots);
  const Pair<W> by = normalizer<T>(all);
  // Backwards, because the elements read last are the most likely to be cached.
  const i64 last = threadIdx.x < row.packs ? (row.packs - 1 - threadIdx.x) / step * step + threadIdx.x : -1;
  for (i64 j = last; j >= 0; j -= step) {
    load_batch(items, row, j, row.packs);
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      const i64 at = j + i * (int)blockDim.x;
      if (at < row.packs) write_pack(row, at, items[i], by);
    }
  }
  write_edge(row, edge, by);
}
