// As many blocks as can be resident at once. A block loads its next row while it computes the current one.
#include "register_row.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, 1) persistent(const Problem given) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Pair<Wide<T>> slots[2][32];
  RegisterRow<T, V, ITEMS, (V > 1)> held, next;
  i64 r = blockIdx.x;
  next.load(Row<T, V>(p, r), threadIdx.x, blockDim.x);  // the grid is never larger than the number of rows
  for (int turn = 0; r < p.rows; r += gridDim.x, turn ^= 1) {
    held = next;
    if (r + gridDim.x < p.rows) next.load(Row<T, V>(p, r + gridDim.x), threadIdx.x, blockDim.x);
    const auto own = held.exponentials();
    held.write(Row<T, V>(p, r), threadIdx.x, blockDim.x, own, block_merge(own, slots[turn]));
  }
}
