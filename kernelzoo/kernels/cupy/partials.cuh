// Sums over all rows: each block of a launch leaves its own, and a second launch adds these up.
#pragma once
#include "lanes.cuh"

// Adds a term of each of the block's rows to sums[k], which belongs to the lanes of that place. All threads come here.
template <class W>
__device__ inline void add_rows(W* sums, i64 k, i64 n, W term, W* shared, const Lane& lane) {
  if (lane.rows > 1) term = over_threads(term, shared, lane.row, lane.rows, lane.between, Plus{});
  if (lane.row == 0 && k < n) sums[k] += term;
}

// Tensor K (n) of an operation: the sums of `count` rows of n, in the same order each time; `before` others come first.
template <class T, int OTHERS, int K>
__global__ void __launch_bounds__(THREADS)
    sum_of_partials(const MultiInput<OTHERS> given, const Wide<T>* partial, const i64 count, const i64 before) {
  const auto p = wait_for_previous_launch(given);
  partial += before * count * p.n;
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const int column = threadIdx.x % 32, lane = threadIdx.x / 32;
  const i64 k = block_index() * 32 + column;
  CompensatedSum<W> sum;
  if (k < p.n) for (i64 row = lane; row < count; row += THREADS / 32) sum.add(partial[row * p.n + k]);
  const W all = over_threads(sum.all(), shared, lane, THREADS / 32, 32, Plus{});
  if (lane == 0 && k < p.n) narrow(all, (line<T, K>(p, 0, 0)[k]));
}
