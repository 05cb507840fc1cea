// Rows that don't fit: a running pair takes in batches of packs, and a second look writes.
#ifndef KERNELZOO_SOFTMAX_RUNNING_CUH
#define KERNELZOO_SOFTMAX_RUNNING_CUH

#include "packs.cuh"

// A running pair takes in a batch of packs: the sum is rescaled when the maximum grows.
template <class T, int V, int ITEMS>
__device__ inline void take_in(Pair<Wide<T>>& run, Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  const W m = larger(run.m, top_of(items));
  W v[V];
  keep_packed(items);
  const W shift = zero_if_empty(m);
  W s = run.s * exponential(run.m - shift);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
    s += sum_of(v);
  }
  keep_packed(items);
  run = {m, s};
}

// The same for packs of neighbouring rows, each with a pair of its own.
template <class T, int V, int ITEMS>
__device__ inline void take_in_columns(Wide<T> (&m)[V], Wide<T> (&s)[V], Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  W v[V], next[V];
#pragma unroll
  for (int k = 0; k < V; ++k) next[k] = m[k];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) next[k] = larger(next[k], v[k]);
  }
  keep_packed(items);
#pragma unroll
  for (int k = 0; k < V; ++k) s[k] *= exponential(m[k] - zero_if_empty(next[k])), m[k] = next[k], next[k] = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) next[k] += exponential(v[k] - zero_if_empty(m[k]));
  }
#pragma unroll
  for (int k = 0; k < V; ++k) s[k] += next[k];  // a batch at a time: fewer roundings in the long sum
}

// A batch of packs of neighbouring rows, `step` elements apart; one past the first `left` is -inf.
template <class T, int V, int ITEMS>
__device__ inline void load_column_batch(Pack<T, V> (&items)[ITEMS], const T* x, i64 step, int left) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    if (i < left) {
      items[i].load(x + i * step);
    } else {
      items[i].empty();
    }
  }
}

template <class T, int V>
__device__ inline void write_pack(const Row<T, V>& row, i64 j, Pack<T, V> item, Pair<Wide<T>> by) {
  Wide<T> v[V];
  item.get(v);
#pragma unroll
  for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], by);
  item.set(v);
  item.store(row.out_pack(j), row.out_packed);
}

// Batches of ITEMS packs per thread from pack `from` up to `to`; a pack past the end is -inf.
template <int ITEMS, class T, int V>
__device__ inline void load_batch(Pack<T, V> (&items)[ITEMS], const Row<T, V>& row, i64 from, i64 to) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const i64 j = from + i * (int)blockDim.x;
    if (j < to) {
      items[i].load(row.x_pack(j));
    } else {
      items[i].empty();
    }
  }
}

template <class T, int V>
__device__ inline void take_in_edge(Pair<Wide<T>>& run, const Row<T, V>& row, Wide<T>& edge) {
  edge = lowest<Wide<T>>();
  if constexpr (V > 1) {
    if (threadIdx.x < row.edges) edge = widen(row.x[row.edge(threadIdx.x)]);
    Pack<T, 1> one[1] = {{edge}};
    take_in<T, 1, 1>(run, one);
  }
}

template <class T, int V>
__device__ inline void write_edge(const Row<T, V>& row, Wide<T> edge, Pair<Wide<T>> by) {
  if constexpr (V > 1) {
    if (threadIdx.x < row.edges) narrow(finished<T>(edge, by), row.out[row.edge(threadIdx.x)]);
  }
}

#endif
