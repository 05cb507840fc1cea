// Sums over all rows: the blocks of one launch store partial sums, and a second launch adds these up.
#pragma once
#include "lanes.cuh"

// Sums over a thread's rows, for V columns in registers or one in memory. term(i) is a row's term for the i-th column.
template <class W, int V>
struct RegisterSums {
  W sum[V];
  template <class Term>
  __device__ void add(Term term) { UNROLL for (int i = 0; i < V; ++i) sum[i] += term(i); }
};
template <class W>
struct SumInMemory {
  W* at;
  template <class Term>
  __device__ void add(Term term) { *at += term(0); }
};

// The sums of all columns of a lane, as MultiPassRow::each passes them. In memory, each row of a block has its own
// sums.
template <class W, int V, int ITEMS>
struct SumsOverRows {
  RegisterSums<W, V> items[ITEMS + !ITEMS] = {};
  struct {
    W* at;
    __device__ SumInMemory<W> load_if(bool, i64 k) const { return {at + k}; }
  } x;

  // `before`: the number of tensors whose sums come earlier in `partial`.
  __device__ SumsOverRows(W* partial, int before, i64 n, const Lane& lane) {
    const i64 blocks = (i64)gridDim.x * gridDim.y, block = before * blocks + block_index();
    x.at = partial + (ITEMS > 0 ? block : block * lane.rows + lane.row) * n;
    if constexpr (ITEMS == 0) for (i64 k = lane.first; k < n; k += lane.step) x.at[k] = 0;
  }
  // Write the block's sums to memory. All threads must call this.
  __device__ void write_sums(i64 n, W* shared, const Lane& lane) {
    if constexpr (ITEMS > 0) {
      constexpr int WIDE = 16 / sizeof(W);
      UNROLL for (int i = 0; i < ITEMS; ++i) {
        W (&sum)[V] = items[i].sum;
        if (lane.rows > 1) {
          UNROLL for (int j = 0; j < V; ++j) {
            sum[j] = merge_threads(sum[j], shared, lane.row, lane.rows, lane.between, Plus{});
          }
        }
        const i64 k = (lane.first + i * lane.step) * V;
        if (lane.row > 0 || k >= n) continue;
        UNROLL for (int j = 0; j < V; j += WIDE) Line<W, WIDE>{x.at, 1}.store(k + j, [&](int m) { return sum[j + m]; });
      }
    }
  }
};

// Output K, of n elements: the sum of `count` partial rows, in a fixed order. `before`: outputs whose rows come first.
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
  const W all = merge_threads(sum.all(), shared, lane, THREADS / 32, 32, Plus{});
  if (lane == 0 && k < p.n) narrow(all, (line<T, K>(p, 0, 0)[k]));
}
