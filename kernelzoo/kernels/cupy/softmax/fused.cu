// One block per row. It reads the row once, into registers.
#include "register_row.cuh"

template <class T, int V, int ITEMS, bool EXACT = false>
__global__ void __launch_bounds__(1024) fused(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  // A thread has ITEMS packs of V elements, 16 bytes each, and one edge element.
  using Held = RegisterRow<T, V, ITEMS, (V > 1), EXACT>;
  __shared__ typename Held::State slots[32];  // per warp: a maximum m, and the sum of exp(x - m)
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Held held;
  held.load(row, threadIdx.x, blockDim.x);
  // Each thread subtracts its own maximum. Once the row's maximum is known, one factor corrects its exponentials.
  typename Held::State own;
  const auto all = merge_row_by_block(held, own, slots);
  held.write(row, threadIdx.x, blockDim.x, own, all);
}
