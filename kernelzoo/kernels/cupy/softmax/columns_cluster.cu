// Columns by a thread-block cluster: every element in shared memory, read once. Of compute capability 9.0.
//
// A block takes some neighbouring rows and its part of their elements, all of them on their way to shared memory at
// once. An SM has several blocks, so that some read while others compute or write. Pairs of a row meet within the warp,
// within the block, and through distributed shared memory within the cluster.

#include "meeting.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int CLUSTER_BLOCKS = 2;  // of the most threads, on an SM
#else
constexpr int CLUSTER_BLOCKS = 1;  // for other devices the compiler would spill
#endif

// What a thread copies asynchronously, and later reads back itself: a pack, or an element of 4 or 8 bytes.
template <class T, int V>
struct Cell {
  Bytes16 raw;
  __device__ void load(const T* x) { copy_async(this, x); }
  __device__ void get(Pack<T, V>& item) const { item.raw = raw; }
};
template <class T>
struct Cell<T, 1> {
  T value;
  __device__ void load(const T* x) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(shared_address(this)), "l"(x), "n"(sizeof(T)) : "memory");
  }
  __device__ void get(Pack<T, 1>& item) const { item.value = widen(value); }
};

template <class T, int V>
__global__ void __launch_bounds__(sizeof(T) == 8 ? 256 : 512, sizeof(T) == 8 ? 2 : CLUSTER_BLOCKS)
    columns_cluster(const Problem given, const int x_lanes, const int items) {
  using W = Wide<T>;
  constexpr int BATCH = V == 1 ? 8 : sizeof(T) == 8 ? 2 : 4;
  extern __shared__ Bytes16 memory[];
  __shared__ u64 met;
  const int lanes = blockDim.x, wide = x_lanes * V, group = x_lanes > 32 ? x_lanes : 32;
  const int parts = cluster_size(), part = cluster_rank();
  const i64 tiles = (given.inner + wide - 1) / wide, tile = block_index() / parts, outer = tile / tiles;
  if (outer >= given.rows / given.inner) return;  // the whole cluster alike
  Cell<T, V>* mine = (Cell<T, V>*)memory + threadIdx.x;
  Meeting<T> meeting((Cell<T, V>*)memory + items * lanes, &met, lanes / group, wide);
  const Problem p = begin(given);
  const int lane = threadIdx.x % x_lanes, depth = threadIdx.x / x_lanes, depths = lanes / x_lanes;
  const i64 inner = (tile - outer * tiles) * wide + lane * V, share = (p.n + parts - 1) / parts;
  const i64 end = (part + 1) * share < p.n ? (part + 1) * share : p.n, from = part * share + depth;
  const int count = inner < p.inner && from < end ? (int)((end - from + depths - 1) / depths) : 0;
  const T* x = (const T*)p.x + outer * p.x_outer + inner * p.x_inner + from * p.x_n;
  T* out = (T*)p.out + outer * p.out_outer + inner * p.out_inner + from * p.out_n;

  // In two halves, so that the first is taken in while the second is on its way.
  const int half = (items / 2 + BATCH - 1) / BATCH * BATCH, first = count < half ? count : half;
  int i = 0;
#pragma unroll 4
  for (; i < first; ++i, x += depths * p.x_n) mine[i * lanes].load(x);
  commit_async();
#pragma unroll 4
  for (; i < count; ++i, x += depths * p.x_n) mine[i * lanes].load(x);
  commit_async();

  W m[V], s[V], v[V];
#pragma unroll
  for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
  const auto take = [&](int i, int to) {
    for (; i < to; i += BATCH) {
      Pack<T, V> batch[BATCH];
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        if (i + k < to) {
          mine[(i + k) * lanes].get(batch[k]);
        } else {
          batch[k].empty();
        }
      }
      take_in_columns(m, s, batch);
    }
  };
  wait_async_but<1>();
  take(0, first);
  wait_async();
  take(first, count);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const W own = m[k];
    for (int mask = 16; mask >= x_lanes; mask /= 2) m[k] = larger(m[k], exchange(m[k], mask));
    s[k] *= exponential(own - zero_if_empty(m[k]));
    for (int mask = 16; mask >= x_lanes; mask /= 2) s[k] += exchange(s[k], mask);
    if ((int)threadIdx.x % group < x_lanes) meeting.slots[threadIdx.x / group * wide + lane * V + k] = {m[k], s[k]};
  }
  meeting.finish();
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const Pair<W> by = meeting.finishers[lane * V + k];
    m[k] = by.m;
    s[k] = by.s;
  }
#pragma unroll(sizeof(T) == 8 ? 1 : V == 1 ? 8 : V == 8 ? 2 : 4)
  for (int i = 0; i < count; ++i, out += depths * p.out_n) {
    Pack<T, V> item;
    mine[i * lanes].get(item);
    item.get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], {m[k], s[k]});
    item.set(v);
    item.store(out, true);
  }
}
