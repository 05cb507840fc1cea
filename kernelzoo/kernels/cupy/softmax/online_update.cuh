// Rows that don't fit on chip: one pass adds batches of packs to a running pair, and a second pass writes.
#pragma once
#include "pairs.cuh"

// A pair whose sum has a compensation for rounding errors, because those of many equal terms have the same sign.
template <class W>
struct RunningPair {
  W m = minus_infinity<W>();
  CompensatedSum<W> s;
  __device__ Pair<W> all() const { return {m, s.all()}; }
};

// Add a batch of packs to a running pair. If the maximum grows, the sum is rescaled.
template <class T, int V, int ITEMS>
__device__ inline void online_update(RunningPair<Wide<T>>& run, Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  const W m = maximum(run.m, max_of(items));
  W v[V];
  keep_packed(items);
  const W shift = zero_if_empty(m);
  W s = 0;
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
    UNROLL for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
    s += sum_of(v);
  }
  keep_packed(items);
  run.s.scale(exponential(run.m - shift));
  run.s.add(s);
  run.m = m;
}

template <class T, int V>
__device__ inline void write_pack(const Row<T, V>& row, i64 j, Pack<T, V> item, Pair<Wide<T>> by) {
  Wide<T> v[V];
  item.get(v);
  UNROLL for (int k = 0; k < V; ++k) v[k] = normalize<T>(v[k], by);
  item.set(v);
  item.store(row.out_pack(j), row.out_packed);
}

// Load a batch of ITEMS packs per thread, from pack `from` on. Packs from `to` on are -inf.
template <int ITEMS, class T, int V>
__device__ inline void load_batch(Pack<T, V> (&items)[ITEMS], const Row<T, V>& row, i64 from, i64 to) {
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    const i64 j = from + i * (int)blockDim.x;
    j < to ? items[i].load(row.x_pack(j)) : items[i].empty();
  }
}

template <class T, int V>
__device__ inline void online_update_edge(RunningPair<Wide<T>>& run, const Row<T, V>& row, Wide<T>& edge) {
  edge = minus_infinity<Wide<T>>();
  if constexpr (V > 1) {
    if (threadIdx.x < row.edges) edge = widen(row.x[row.edge(threadIdx.x)]);
    Pack<T, 1> one[1] = {{edge}};
    online_update<T, 1, 1>(run, one);
  }
}

template <class T, int V>
__device__ inline void write_edge(const Row<T, V>& row, Wide<T> edge, Pair<Wide<T>> by) {
  if constexpr (V > 1) if (threadIdx.x < row.edges) narrow(normalize<T>(edge, by), row.out[row.edge(threadIdx.x)]);
}
