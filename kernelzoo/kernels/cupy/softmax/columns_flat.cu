// Columns as one piece of memory: few rows side by side, whatever boundaries they keep to.
//
// `around` packs hold each row equally often, so that place k of a thread's packs, which are that far apart, is always
// of the same row. `active` threads of a block go round them together; where that takes more than it has, `slices`
// blocks do. A block takes consecutive rounds, and holds the first `held` packs of each thread in shared memory; the
// others are read again, the last one first, which is the likeliest to be in the L2 cache still.

#include "../meet.cuh"
#include "running.cuh"

template <class T, int ITEMS>
__global__ void __launch_bounds__(512, 1)
    columns_flat(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int held, const int active,
                 const int around, const int slices) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T);
  extern __shared__ Bytes16 memory[];
  __shared__ Pair<W> slots[512];
  const int rows = (int)p.inner, groups = rows < 512 ? 512 / rows : 1;  // of threads, that merge a row's pairs
  const int first = blockIdx.x % slices * active, own = around - first < active ? around - first : active;
  const int parts = gridDim.x / slices, part = blockIdx.x / slices;
  const i64 total = p.n * rows, packs = total / V, rounds = (packs + around - 1) / around;
  const i64 share = (rounds + parts - 1) / parts, from = part * share * around + first + threadIdx.x;
  const i64 end = (part + 1) * share * around, to = end < packs ? end : packs;
  const int count = threadIdx.x < own && from < to ? (int)((to - from + around - 1) / around) : 0;
  const int kept = count < held ? count : held;
  const T* x = (const T*)p.x;
  T* out = (T*)p.out;
  Bytes16* mine = memory + threadIdx.x;
  Pair<W>* places = (Pair<W>*)(memory + held * 512);
  const auto element = [&](int k) { return (from + (i64)k * around) * V; };
  for (int k = 0; k < kept; ++k) copy_async(mine + k * 512, x + element(k));

  W m[V], s[V], v[V];
  Pack<T, V> items[ITEMS], next[ITEMS];
#pragma unroll
  for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
  const auto load = [&](Pack<T, V>(&into)[ITEMS], int first) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (first + i < count) {
        into[i].load(x + element(first + i));
      } else {
        into[i].empty();
      }
    }
  };
  if (kept < count) load(next, kept);
  for (int k = kept; k < count; k += ITEMS) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) items[i] = next[i];
    if (k + ITEMS < count) load(next, k + ITEMS);
    take_in_columns(m, s, items);
  }
  wait_async();
  for (int k = 0; k < kept; k += ITEMS) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (k + i < kept) {
        items[i].raw = mine[(k + i) * 512];
      } else {
        items[i].empty();
      }
    }
    take_in_columns(m, s, items);
  }

  // Thread `i` merges every groups-th of the places of a row, of which a slice may have none.
  const int skew = first * V % rows;  // the row of the block's first place
  if (threadIdx.x < own) {
#pragma unroll
    for (int k = 0; k < V; ++k) places[threadIdx.x * V + k] = {m[k], s[k]};
  }
  __syncthreads();
  Pair<W> all;
  for (int i = threadIdx.x; i < groups * rows; i += 512) {
    const int row = i % rows, place = row < skew ? i + rows - skew : i - skew;
    all = {lowest<W>(), 0};
    for (int k = place; k < own * V; k += groups * rows) all = merge(all, places[k]);
    for (i64 e = packs * V; blockIdx.x == 0 && i < rows && e < total; ++e) {  // what is left over of the last pack
      if (e % rows == row) {
        const W edge = widen(x[e]);
        all = merge(all, Pair<W>{edge, exponential(edge - zero_if_empty(edge))});
      }
    }
    if (groups == 1) {
      partial[(i64)blockIdx.x * rows + row] = all;
    } else {
      slots[i] = all;
    }
  }
  __syncthreads();
  if (groups > 1 && threadIdx.x < rows) {
    for (int k = 1; k < groups; ++k) all = merge(all, slots[k * rows + threadIdx.x]);
    partial[(i64)blockIdx.x * rows + threadIdx.x] = all;
  }
  meet(arrived, gridDim.x);
  // The blocks share the rows, a warp to each; what they find goes where it was found, to block 0's pairs.
  for (int r = blockIdx.x + threadIdx.x / 32 * gridDim.x; r < rows; r += blockDim.x / 32 * gridDim.x) {
    all = {lowest<W>(), 0};
    for (int k = threadIdx.x & 31; k < gridDim.x; k += 32) all = merge(all, partial[(i64)k * rows + r]);
    all = merge_lanes<32>(all);
    if ((threadIdx.x & 31) == 0) partial[r] = finisher<T>(all);
  }
  meet(arrived + 1, gridDim.x);
  for (int r = threadIdx.x; r < rows; r += 512) places[r] = partial[r];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const Pair<W> by = places[((first + threadIdx.x) * V + k) % rows];
    m[k] = by.m;
    s[k] = by.s;
  }

  const auto write = [&](int first, int stop) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], {m[k], s[k]});
      items[i].set(v);
      if (first + i < stop) items[i].store(out + element(first + i), true);
    }
  };
  int last = kept < count ? (count - 1 - kept) / ITEMS * ITEMS + kept : -1;
  if (last >= 0) load(next, last);
  for (; last >= kept; last -= ITEMS) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) items[i] = next[i];
    if (last - ITEMS >= kept) load(next, last - ITEMS);
    write(last, count);
  }
  for (int k = 0; k < kept; k += ITEMS) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (k + i < kept) {
        items[i].raw = mine[(k + i) * 512];
      } else {
        items[i].empty();
      }
    }
    write(k, kept);
  }
  const i64 e = packs * V + threadIdx.x;
  if (blockIdx.x == 0 && e < total) narrow(finished<T>(widen(x[e]), places[e % rows]), out[e]);
}
