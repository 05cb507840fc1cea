// Short contiguous rows of any length: 128 of them, one piece of memory, are copied to shared memory 16 bytes at a
// time, and each thread then walks down one.

#include "minima.cuh"

template <class T>
__global__ void __launch_bounds__(128) rows_deferred_shared(const Problem given) {
  const Problem p = begin(given);
  constexpr int V = 16 / sizeof(T);
  extern __shared__ Bytes16 memory[];
  const i64 first = block_index() * 128;
  if (first >= p.rows) return;
  const int n = (int)p.n, rows = p.rows - first < 128 ? (int)(p.rows - first) : 128, count = rows * n;
  const T* x = (const T*)p.x + first * n;
  const int phase = misalignment(x) / sizeof(T), before = (V - phase) % V, head = before < count ? before : count;
  const int packs = (count - head) / V, tail = head + packs * V;
  T* tile = (T*)memory + phase;  // the same place in a 16-byte word as in x
  Bytes16* tile_packs = (Bytes16*)(tile + head);
  for (int j = threadIdx.x; j < packs; j += 128) copy_async(tile_packs + j, x + head + j * V);
  if (threadIdx.x < head) tile[threadIdx.x] = x[threadIdx.x];
  if (tail + (int)threadIdx.x < count) tile[tail + threadIdx.x] = x[tail + threadIdx.x];
  wait_async();
  __syncthreads();
  if (threadIdx.x >= rows) return;
  const T* row = tile + threadIdx.x * n;
  Word<T> w = nothing<T>();
  int i = 0;
  if constexpr (sizeof(T) < 4) {  // a word of narrow elements at a time, from the first that lies within the row
    constexpr int PER = 4 / sizeof(T);
    const int ragged = shared_address(row) / sizeof(T) % PER, lead = ragged ? PER - ragged : 0;
    for (; i < lead && i < n; ++i) w = least(w, spread(row + i), T{});
#pragma unroll 4
    for (; i + PER <= n; i += PER) w = least(w, *(const u32*)(row + i), T{});
  }
#pragma unroll 4
  for (; i < n; ++i) w = least(w, spread(row + i), T{});
  put(Row<T, 1>(p, first + threadIdx.x).out, w);
}
