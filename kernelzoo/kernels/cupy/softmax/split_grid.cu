// Several blocks to a row, of one co-operative launch, wait for each other.
//
// `chunks` blocks a row. A thread holds ITEMS packs in registers and `shared_items` more in shared memory; only what
// is past those is read twice, the second time most likely from the L2 cache.

#include "../meet.cuh"
#include "running.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, 1)
    split_grid(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int chunks, const int shared_items) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int BATCH = sizeof(T) == 8 ? 2 : 4;  // exp() in double takes the registers of two packs
  extern __shared__ Bytes16 memory[];
  Pack<T, V>* shared = (Pack<T, V>*)memory;
  __shared__ Pair<W> slots[2][32];
  const int lanes = blockDim.x, group = blockIdx.x / chunks, chunk = blockIdx.x % chunks, groups = gridDim.x / chunks;
  int turn = 0;
  for (i64 r = group; r < p.rows; r += groups, turn ^= 1) {
    const Row<T, V> row(p, r);
    const i64 share = (row.packs + chunks - 1) / chunks, from = chunk * share + threadIdx.x;
    const i64 end = (chunk + 1) * share, to = end < row.packs ? end : row.packs;
    const i64 kept = from + (i64)ITEMS * lanes, beyond = kept + (i64)shared_items * lanes;

    Pair<W> run = {lowest<W>(), 0};
    Pack<T, V> items[ITEMS], batch[BATCH];
    load_batch(items, row, from, to);
    for (int i = 0; i < shared_items; i += BATCH) {  // a multiple of BATCH; each thread reads back what it wrote
      load_batch(batch, row, kept + (i64)i * lanes, to);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) shared[(i + k) * lanes + threadIdx.x] = batch[k];
      take_in(run, batch);
    }
    for (i64 j = beyond; j < to; j += BATCH * lanes) {
      load_batch(batch, row, j, to);
      take_in(run, batch);
    }
    take_in(run, items);
    W edge = lowest<W>();
    if (chunk == 0) take_in_edge(run, row, edge);

    const auto block = merge_block(run, slots[turn]);
    Pair<W>* row_partial = partial + r * chunks;
    if (threadIdx.x == 0) row_partial[chunk] = block;
    meet(arrived + r, chunks);
    const auto all = merge_slots(row_partial, chunks);
    const Pair<W> by = finisher<T>(all);

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * lanes;
      if (j < to) write_pack(row, j, items[i], by);
    }
    for (int i = 0; i < shared_items; ++i) {
      const i64 j = kept + (i64)i * lanes;
      if (j < to) write_pack(row, j, shared[i * lanes + threadIdx.x], by);
    }
    for (i64 j = beyond; j < to; j += BATCH * lanes) {
      load_batch(batch, row, j, to);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        const i64 at = j + (i64)k * lanes;
        if (at < to) write_pack(row, at, batch[k], by);
      }
    }
    if (chunk == 0) write_edge(row, edge, by);
  }
}
