// A softmax's rows by pairs that are known: a block to a share of a row, one read, one write.

#include "../softmax/running.cuh"
#include "../several.cuh"

// e^min(v - m, 0) / s, a NaN kept.
template <class W> __device__ inline W result(W v, Pair<W> by) {
  const W depth = v - by.m;
  return quotient(exponential(depth > 0 ? W(0) : depth), by.s);
}

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256) blocks(const Several<2> given, int shares) {
  const Several<2> p = begin(given);
  using W = Wide<T>;
  // Backwards: what softmax_pairs read last is likeliest to be in L2 still.
  const i64 block = p.rows * shares - 1 - block_index();
  if (block < 0) return;
  const i64 r = block / shares;
  const Problem read = {p.x, p.out, p.rows, p.n, p.inner, p.x_outer, p.x_n, p.x_inner,
                        p.out_outer, p.out_n, p.out_inner, p.inner_inverse};
  const Row<T, V> row(read, r);
  i64 outer, inner;
  number(p, r, outer, inner);
  const Pair<W> by = {((const W*)p.other[0])[outer * p.strides[0].outer + inner * p.strides[0].inner],
                      ((const W*)p.other[1])[outer * p.strides[1].outer + inner * p.strides[1].inner]};
  const i64 share = block - r * shares, from = share * ITEMS * (int)blockDim.x + threadIdx.x;
  Pack<T, V> items[ITEMS];
  load_batch(items, row, from, row.packs);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const i64 j = from + i * (int)blockDim.x;
    if (j < row.packs) {
      W v[V];
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = result(v[k], by);
      items[i].set(v);
      items[i].store(row.out_pack(j), row.out_packed);
    }
  }
  if constexpr (V > 1) {
    if (share == 0 && threadIdx.x < row.edges) {
      const i64 at = row.edge(threadIdx.x);
      narrow(result<W>(widen(row.x[at]), by), row.out[at]);
    }
  }
}
