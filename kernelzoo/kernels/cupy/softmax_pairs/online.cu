// One block per row of any length, one pass: a running pair, which the block leaves.

#include "../softmax/running.cuh"
#include "../several.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, sizeof(T) == 8 ? 1 : 2) online(const Several<1> given) {
  const Several<1> p = begin(given);
  using W = Wide<T>;
  __shared__ Pair<W> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Problem read = {p.x, p.out, p.rows, p.n, p.inner, p.x_outer, p.x_n, p.x_inner, 0, 0, 0, p.inner_inverse};
  const Row<T, V> row(read, r);
  const int step = ITEMS * (int)blockDim.x;
  Pair<W> run = {lowest<W>(), 0};
  Pack<T, V> items[ITEMS];
  W edge;
  for (i64 j = threadIdx.x; j < row.packs; j += step) {
    load_batch(items, row, j, row.packs);
    take_in(run, items);
  }
  take_in_edge(run, row, edge);
  const Pair<W> all = merge_block(run, slots);
  if (threadIdx.x == 0) {
    i64 outer, inner;
    number(p, r, outer, inner);
    W* const maximum = (W*)p.other[0] + outer * p.strides[0].outer + inner * p.strides[0].inner;
    *maximum = all.s == all.s ? all.m : all.s;  // a NaN that the maximum dropped is in the sum
    ((W*)p.out)[outer * p.out_outer + inner * p.out_inner] = all.s;
  }
}
