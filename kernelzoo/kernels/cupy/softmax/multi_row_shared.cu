// Short contiguous rows through shared memory, one thread per row or a few.
//
// Rows of a length that is no multiple of a pack start anywhere in a 16-byte word, but 128 of them in a row are one
// piece of memory: it is copied whole, 16 bytes at a time. LANES threads then take a row, in runs of 32 / LANES words,
// so that for an odd length no two lanes of a warp meet in a bank of shared memory. Half precisions are read two to a
// word, of which the row's first and last may be shared with a neighbour.

#include "packs.cuh"

template <class T>
constexpr int TILE_ELEMENTS = 44;  // of a thread, up to which its registers let eight blocks on an SM
template <>
constexpr int TILE_ELEMENTS<float16> = 32;  // their conversions need more

template <class T, int LANES, int WORDS>
__global__ void __launch_bounds__(128, sizeof(T) <= 4 && WORDS * 4 / sizeof(T) <= TILE_ELEMENTS<T> ? 8 : 4)
    multi_row_shared(const Problem given) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T), PER = sizeof(T) == 2 ? 2 : 1, ROWS = 128 / LANES, RUN = 32 / LANES;
  extern __shared__ Bytes16 memory[];
  const i64 first = block_index() * ROWS;
  if (first >= p.rows) return;
  const int n = (int)p.n, rows = p.rows - first < ROWS ? (int)(p.rows - first) : ROWS, count = rows * n;
  const T* x = (const T*)p.x + first * n;
  T* out = (T*)p.out + first * n;
  const int phase = misalignment(x) / sizeof(T), before = (V - phase) % V, head = before < count ? before : count;
  const int packs = (count - head) / V, tail = head + packs * V;
  T* tile = (T*)memory + phase;  // the same place in a 16-byte word as in x

  Bytes16* tile_packs = (Bytes16*)(tile + head);
  for (int j = threadIdx.x; j < packs; j += 128) copy_async(tile_packs + j, x + head + j * V);
  if (threadIdx.x < head) tile[threadIdx.x] = x[threadIdx.x];
  if (tail + (int)threadIdx.x < count) tile[tail + threadIdx.x] = x[tail + threadIdx.x];
  wait_async();
  __syncthreads();

  // Word i of this thread is word place(i) of its row, which lies `skew` words on from where the thread begins.
  const int own = threadIdx.x / LANES, skew = threadIdx.x % LANES * RUN, start = phase + own * n;
  const int odd = PER == 2 ? start & 1 : 0, mine = own < rows ? n : -1;
  const auto place = [&](int i) { return skew + i / RUN * 32 + i % RUN; };
  W v[WORDS * PER], m = lowest<W>(), s = 0;
  if constexpr (PER == 2) {
    const u32* words = (const u32*)memory + start / 2;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const int low = 2 * place(i) - odd;  // the row's element in the low half
      const u32 word = low < mine ? words[place(i)] : 0;
      v[2 * i] = low < mine && low >= 0 ? widen(T{(u16)word}) : lowest<W>();
      v[2 * i + 1] = low + 1 < mine ? widen(T{(u16)(word >> 16)}) : lowest<W>();
    }
  } else {
    const T* row = tile + own * n;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) v[i] = place(i) < mine ? widen(row[place(i)]) : lowest<W>();
  }
#pragma unroll
  for (int i = 0; i < WORDS * PER; ++i) m = larger(m, v[i]);
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
  const W shift = zero_if_empty(m);
  W part = 0;  // of eight: a single sum of equal terms, all rounded the same way, would be off by more than is allowed
#pragma unroll
  for (int i = 0; i < WORDS * PER; ++i) {
    v[i] = exponential(v[i] - shift);
    part += v[i];
    if (i % 8 == 7 || i + 1 == WORDS * PER) s += part, part = 0;
  }
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) s += exchange(s, mask);
  const W inverse = W(1) / s;
  __syncthreads();  // a neighbour may have read a word that is half this row's
  if constexpr (PER == 2) {
    u32* words = (u32*)memory + start / 2;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      const int low = 2 * place(i) - odd;
      const u32 word = two_halves(v[2 * i] * inverse, v[2 * i + 1] * inverse, T{});
      const bool has_low = low < mine && low >= 0, has_high = low + 1 < mine;
      if (has_low && has_high) {
        words[place(i)] = word;
      } else if (has_low) {
        *(u16*)(words + place(i)) = (u16)word;
      } else if (has_high) {
        *((u16*)(words + place(i)) + 1) = (u16)(word >> 16);
      }
    }
  } else {
    T* row = tile + own * n;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      if (place(i) < mine) narrow(v[i] * inverse, row[place(i)]);
    }
  }
  __syncthreads();

  if (misalignment(out) / sizeof(T) == phase) {
    for (int j = threadIdx.x; j < packs; j += 128) store_plain(out + head + j * V, tile_packs[j]);
    if (threadIdx.x < head) out[threadIdx.x] = tile[threadIdx.x];
    if (tail + (int)threadIdx.x < count) out[tail + threadIdx.x] = tile[tail + threadIdx.x];
  } else {
    for (int j = threadIdx.x; j < count; j += 128) out[j] = tile[j];
  }
}
