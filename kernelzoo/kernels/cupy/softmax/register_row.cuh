// A thread's part of a row in registers: ITEMS packs and, if EDGES, one edge element. And the pair of the row.
#pragma once
#include "pairs.cuh"

// Exponentials stay in registers until the row's pair is known. They replace the elements if the dtype is as wide as
// its arithmetic; otherwise they take more registers. If half precisions are too many, they are computed twice.
//
// EXACT: the terms exp(x - max), with the row's maximum, are added exactly. So the bits depend neither on the row's
// address nor on the number of lanes. Batch-invariant rows that may be unaligned need this.
template <class T, int V, int ITEMS, bool EDGES, bool EXACT = false>
struct RegisterRow {
  using W = Wide<T>;
  using State = Pair<W, decltype(term<EXACT>(W()))>;
  static constexpr bool AGREES = EXACT || sizeof(W) == 8;  // whether lanes first exchange the row's maximum
  static constexpr bool IN_PLACE = V == 1 || sizeof(T) == sizeof(W), KEPT = IN_PLACE || ITEMS <= 4;
  Pack<T, V> items[ITEMS];
  W beside[KEPT && !IN_PLACE ? ITEMS * V : 1], edge;

  __device__ void keep(int i, const W (&v)[V]) {
    if constexpr (IN_PLACE) {
      items[i].set(v);
    } else if constexpr (KEPT) {
      UNROLL for (int k = 0; k < V; ++k) beside[i * V + k] = v[k];
    }
  }
  __device__ void get_exponentials(int i, W (&v)[V], W shift) const {
    if constexpr (IN_PLACE || !KEPT) items[i].get(v);
    UNROLL for (int k = 0; k < V; ++k) {
      if constexpr (!KEPT) v[k] = exponential(v[k] - shift);
      if constexpr (KEPT && !IN_PLACE) v[k] = beside[i * V + k];
    }
  }

  // Load the part of lane `lane` of `lanes`. Elements past the row's end are -inf, which adds nothing. All loads are
  // issued before the first one is used.
  __device__ void load(const Row<T, V>& row, int lane, int lanes, bool live = true) {
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if constexpr (V == 1) {  // past the end, read the first element again: no load needs a predicate
        const bool inside = live && j < row.packs;
        items[i].template load<true>(row.x_pack(inside ? j : 0));
        if (!inside) items[i].empty();
      } else if (live && j < row.packs) {
        items[i].template load<true>(row.x_pack(j));
      } else {
        items[i].empty();
      }
    }
    if constexpr (EDGES) edge = live && lane < row.edges ? widen(row.x[row.edge(lane)]) : minus_infinity<W>();
  }

  __device__ W top() const {
    const W m = max_of<EXACT>(items);
    return EDGES ? maximum<EXACT>(m, edge) : m;
  }

  // The maximum over LANES lanes.
  template <int LANES> __device__ static W row_max(W m) { return warp_max<LANES, 1, EXACT>(m); }

  // The sum of exp(x - m). m is the thread's maximum, or one that several threads have exchanged.
  __device__ State exponentials() { return exponentials(top()); }
  __device__ State exponentials(const W m) {
    const W shift = zero_if_empty(m);
    W v[V];
    State own = {m, 0};
    keep_packed(items);
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
      UNROLL for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
      if constexpr (EXACT) UNROLL for (int k = 0; k < V; ++k) own.s += term<EXACT>(v[k]);
      else own.s += sum_of(v);
      keep(i, v);
    }
    if constexpr (EDGES) {
      const W e = exponential(edge - shift);
      own.s += term<EXACT>(e);
      if constexpr (KEPT) edge = e;
    }
    if constexpr (!KEPT) keep_packed(items);
    return own;
  }

  // `own`: what exponentials() returned; `all`: the pair of the complete row.
  __device__ void write(const Row<T, V>& row, int lane, int lanes, State own, Pair<W> all) {
    const W shift = zero_if_empty(all.m), inverse = W(1) / all.s;
    const bool agreed = EXACT || (sizeof(W) == 8 && own.m == all.m);  // own.m is the row's maximum
    const W scale = KEPT && !agreed ? exponential(own.m - shift) * inverse : inverse;
    W v[V];
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if (j < row.packs) {
        get_exponentials(i, v, shift);
        UNROLL for (int k = 0; k < V; ++k) v[k] *= scale;
        items[i].set(v);
        items[i].template store<true>(row.out_pack(j), row.out_packed);
      }
    }
    if (EDGES && lane < row.edges) narrow((KEPT ? edge : exponential(edge - shift)) * scale, row.out[row.edge(lane)]);
  }
};

// The pair of a row in the registers of LANES lanes, or of a block. `own` gets the thread's pair. In double, threads
// first exchange the row's maximum, because merging pairs costs each three more exponentials (some 60 instructions).
template <int LANES, class Held, class State>
__device__ inline auto merge_row_by_lanes(Held& held, State& own) {
  if constexpr (Held::AGREES) {
    own = held.exponentials(Held::template row_max<LANES>(held.top()));
    return row_pair(own.m, warp_sum<LANES>(own.s));
  } else {
    own = held.exponentials();
    return warp_merge<LANES>(own);
  }
}

template <class Held, class State>
__device__ inline auto merge_row_by_block(Held& held, State& own, State* slots) {
  if constexpr (Held::AGREES) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const auto top = Held::template row_max<32>(held.top());
    if (lane == 0) slots[warp].m = top;
    __syncthreads();
    own = held.exponentials(Held::template row_max<32>(lane < warps ? slots[lane].m : minus_infinity<decltype(top)>()));
    const auto sum = warp_sum<32>(own.s);
    if (lane == 0) slots[warp].s = sum;
    __syncthreads();
    return row_pair(own.m, warp_sum<32>(lane < warps ? slots[lane].s : decltype(sum)(0)));
  } else {
    own = held.exponentials();
    return block_merge(own, slots);
  }
}
