// Rows of tensors of any strides, element by element: some lanes to a row, and several rows to a block.
#pragma once
#include "vector_io.cuh"

constexpr int THREADS = 256;  // of a block at most

// Where a thread works: on the elements first, first + step, ... of its row. Lanes are a power of two. `across`:
// neighbouring threads belong to neighbouring rows, and not to one. A block's rows past the last have no elements.
struct Lane {
  i64 outer, inner, n;
  int first, step;     // of its row's lanes, and how many these are
  int row, rows;       // of the block's rows
  int apart, between;  // threads from a lane to the next of its row, and from a row to the next
  bool live, leads;    // its row is there; and it is the row's first lane

  template <class P>
  __device__ Lane(const P& p, int lanes, int across, i64 block = block_index()) {
    step = lanes, rows = (int)blockDim.x / lanes;
    apart = across ? rows : 1, between = across ? 1 : lanes;
    first = threadIdx.x / apart % lanes, row = threadIdx.x / between % rows;
    const i64 r = block * rows + row;
    live = r < p.rows, leads = live && first == 0, n = live ? p.n : 0;
    row_coords(p, live ? r : 0, outer, inner);
  }
};

// A row of tensor K of an operation, whose inputs come first and its last output last.
template <class T>
struct Line {
  T* at;
  i64 step;
  __device__ T& operator[](i64 k) const { return at[k * step]; }
};
template <class T, int K, class P>
__device__ inline Line<T> line(const P& p, i64 outer, i64 inner) {
  const void* at = K == 0 ? p.x : p.out;
  Strides by = K == 0 ? Strides{p.x_outer, p.x_n, p.x_inner} : Strides{p.out_outer, p.out_n, p.out_inner};
  if constexpr (K > 0 && K <= P::OTHERS) at = p.other[K - 1], by = p.strides[K - 1];
  return {(T*)at + outer * by.outer + inner * by.inner, by.n};
}
template <class T, int K, class P>
__device__ inline Line<T> line(const P& p, const Lane& lane) { return line<T, K>(p, lane.outer, lane.inner); }

// Over `count` threads that are `apart`, of which this is the one of that index, in a tree; each of them gets it. All of
// the block come here. `shared` has a place for each thread.
template <class V, class Merge>
__device__ inline V over_threads(V own, V* shared, int index, int count, int apart, Merge merge) {
  V* mine = shared + threadIdx.x;
  __syncthreads();  // the last result has been read
  *mine = own;
  for (int half = count / 2; half > 0; half /= 2) {
    __syncthreads();
    if (index < half) *mine = merge(*mine, mine[half * apart]);
  }
  __syncthreads();
  return *(mine - index * apart);
}

// Over the lanes of each row.
template <class V, class Merge>
__device__ inline V over_lanes(V own, V* shared, const Lane& lane, Merge merge) {
  return over_threads(own, shared, lane.first, lane.step, lane.apart, merge);
}
struct Plus { template <class V> __device__ V operator()(V a, V b) const { return a + b; } };
template <class V>
__device__ inline V sum_over_lanes(V own, V* shared, const Lane& lane) {
  return over_lanes(own, shared, lane, Plus{});
}
