// Several blocks share the reduced axis. A block sends each row's minimum at once, by an atomic.
#include "atomics.cuh"

// Block (p, q) reduces packs [p * block_n, (p + 1) * block_n) of row tiles q, q + gridDim.y, ..., one row per warp.
template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3) atomic_eager(const Problem given, Target<T>* workspace, const i64 block_n) {
  const Problem p = wait_for_previous_launch(given);
  constexpr int WARPS = 8;
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const i64 from = blockIdx.x * block_n, step = (i64)gridDim.y * WARPS;
  for (i64 tile = (i64)blockIdx.y * WARPS; tile < p.rows; tile += step) {
    const i64 r = tile + warp;
    if (r < p.rows) {  // uniform in a warp
      const Word<T> w = min_of_columns<ITEMS>(Row<T, V>(p, r), from, block_n, lane);
      if (lane == 0) atomic_minimum(target_address<T>(p, workspace, r), as_target<T>(w));
    }
  }
}
