// One block per row, which reads the row once, into registers.
#include "register_row.cuh"

template <class T, int V, int ITEMS, bool EXACT = false>
__global__ void __launch_bounds__(1024) fused(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  // ITEMS packs of V elements, 16 bytes each, and one edge element.
  using Held = RegisterRow<T, V, ITEMS, (V > 1), EXACT>;
  __shared__ typename Held::State slots[32];  // of each warp: a maximum m, and the sum of exp(x - m)
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Held held;
  held.load(row, threadIdx.x, blockDim.x);
  // Each thread subtracts its own maximum. When the row's is known, one factor corrects the exponentials.
  typename Held::State own;
  const auto all = merge_row_by_block(held, own, slots);
  held.write(row, threadIdx.x, blockDim.x, own, all);
}
