// Several blocks share the reduced axis. A block collects the minima of all its rows, and then sends them by atomics.
#include "atomics.cuh"

// Block (p, q) reduces packs [p * block_n, (p + 1) * block_n) of row tiles q, q + gridDim.y, ..., with one row per
// warp. It collects the minima in shared memory. Past 2^26 rows gridDim.y is too small: it sends them every 1024 rows.
template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 4) atomic_batched(const Problem given, Target<T>* workspace, const i64 block_n) {
  const Problem p = wait_for_previous_launch(given);
  constexpr int WARPS = 8, ROWS = 1024;
  __shared__ Word<T> batch[ROWS];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const i64 from = blockIdx.x * block_n, step = (i64)gridDim.y * WARPS;
  int held = 0;
  for (i64 tile = (i64)blockIdx.y * WARPS; tile < p.rows; tile += step) {
    const i64 r = tile + warp;
    Word<T> w = identity_word<T>();
    if (r < p.rows) w = min_of_columns<ITEMS>(Row<T, V>(p, r), from, block_n, lane);  // uniform in a warp
    if (lane == 0) batch[held + warp] = w;
    held += WARPS;
    if (held == ROWS || tile + step >= p.rows) {  // uniform in the block
      __syncthreads();
      const i64 first = tile - (held / WARPS - 1) * step;
      for (int k = threadIdx.x; k < held; k += 256) {
        const i64 row = first + k / WARPS * step + k % WARPS;
        if (row < p.rows) atomic_minimum(target_address<T>(p, workspace, row), as_target<T>(batch[k]));
      }
      __syncthreads();
      held = 0;
    }
  }
}
