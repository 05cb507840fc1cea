// A thread's part of a row, held in registers: ITEMS packs and EDGES edge elements; and the pair of the row.
#ifndef KERNELZOO_SOFTMAX_HELD_CUH
#define KERNELZOO_SOFTMAX_HELD_CUH

#include "packs.cuh"

template <class T, int V, int ITEMS, int EDGES>
struct Held {
  using W = Wide<T>;
  // The exponentials are kept: in place of the elements where the dtype is as wide as its arithmetic, beside them where
  // half precisions are few. Of more of those they are computed twice, for want of registers.
  static constexpr bool IN_PLACE = V == 1 || sizeof(T) == sizeof(W), KEPT = IN_PLACE || ITEMS <= 4;

  Pack<T, V> items[ITEMS];
  W edges[EDGES ? EDGES : 1];
  W wide[IN_PLACE || !KEPT ? 1 : ITEMS * V];

  // Lane `lane` of `lanes`. What lies past the row's end is -inf, which adds nothing. All loads are issued before the
  // first is waited for.
  __device__ void load(const Row<T, V>& row, int lane, int lanes, bool live = true) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if (live && j < row.packs) {
        items[i].template load<true>(row.x + row.head + j * (V > 1 ? (i64)V : row.x_n), row.x_n);
      } else {
        items[i].empty();
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * lanes;
      edges[i] = live && e < row.edges ? widen(row.x[row.edge(e)]) : lowest<W>();
    }
  }

  __device__ W top() const {
    W m = top_of(items);
#pragma unroll
    for (int i = 0; i < EDGES; ++i) m = larger(m, edges[i]);
    return m;
  }

  __device__ Pair<W> exponentials() { return exponentials(top()); }
  __device__ Pair<W> exponentials(const W m) {
    const W shift = zero_if_empty(m);
    W s = 0, v[V];
    keep_packed(items);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
      s += sum_of(v);
      if constexpr (IN_PLACE) {
        items[i].set(v);
      } else if constexpr (KEPT) {
#pragma unroll
        for (int k = 0; k < V; ++k) wide[i * V + k] = v[k];
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const W e = exponential(edges[i] - shift);
      s += e;
      if constexpr (KEPT) edges[i] = e;
    }
    if constexpr (!KEPT) keep_packed(items);
    return {m, s};
  }

  // `own` is what exponentials() returned, `all` the whole row's pair.
  __device__ void write(const Row<T, V>& row, int lane, int lanes, Pair<W> own, Pair<W> all) {
    const W shift = zero_if_empty(all.m), inverse = W(1) / all.s;
    const bool agreed = sizeof(W) == 8 && own.m == all.m;  // on the maximum, by merge_held
    const W scale = KEPT && !agreed ? exponential(own.m - shift) * inverse : inverse;
    W v[V];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if (j < row.packs) {
        if constexpr (IN_PLACE || !KEPT) items[i].get(v);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          if constexpr (IN_PLACE) {
            v[k] *= scale;
          } else if constexpr (KEPT) {
            v[k] = wide[i * V + k] * scale;
          } else {
            v[k] = exponential(v[k] - shift) * scale;
          }
        }
        items[i].set(v);
        auto* out = row.out + row.head + j * (V > 1 ? (i64)V : row.out_n);
        items[i].template store<true>(out, row.out_n, row.out_packed);
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * lanes;
      if (e < row.edges) narrow((KEPT ? edges[i] : exponential(edges[i] - shift)) * scale, row.out[row.edge(e)]);
    }
  }
};

// The pair of a row that LANES lanes, or a block, hold, and in `own` the thread's. In double they agree on the row's
// maximum first: to meet once, and go over from a thread's own maximum to the row's, costs each thread three exponentials
// more, of some twenty instructions each.
template <int LANES, class W>
__device__ inline W larger_of_lanes(W m) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
  return m;
}
template <int LANES, class W>
__device__ inline W sum_of_lanes(W s) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) s += exchange(s, mask);
  return s;
}

template <int LANES, class Held, class W>
__device__ inline Pair<W> merge_held(Held& held, Pair<W>& own) {
  if constexpr (sizeof(W) == 8) {
    own = held.exponentials(larger_of_lanes<LANES>(held.top()));
    return {own.m, sum_of_lanes<LANES>(own.s)};
  } else {
    own = held.exponentials();
    return merge_lanes<LANES>(own);
  }
}

template <class Held, class W>
__device__ inline Pair<W> merge_held_by_block(Held& held, Pair<W>& own, Pair<W>* slots) {
  if constexpr (sizeof(W) == 8) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const W top = larger_of_lanes<32>(held.top());
    if (lane == 0) slots[warp].m = top;
    __syncthreads();
    own = held.exponentials(larger_of_lanes<32>(lane < warps ? slots[lane].m : lowest<W>()));
    const W sum = sum_of_lanes<32>(own.s);
    if (lane == 0) slots[warp].s = sum;
    __syncthreads();
    return {own.m, sum_of_lanes<32>(lane < warps ? slots[lane].s : W(0))};
  } else {
    own = held.exponentials();
    return merge_block(own, slots);
  }
}

#endif
