// Columns at odd widths, by a cluster, in shared memory. Of compute capability 9.0.
//
// As columns_cluster, for rows that begin anywhere in a 16-byte word: a block takes 32 neighbouring rows, a lane each.
// Their elements of one place in the row are a piece of memory; the words that it lies in are copied whole, so that
// half precisions too go without a register between. A warp has consecutive places, `items` of them, and reads only
// what its own lanes have copied.

#include "meeting.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int RAGGED_BLOCKS = 3;  // of the most threads, on an SM
#else
constexpr int RAGGED_BLOCKS = 1;  // for other devices the compiler would spill
#endif

template <class T>
__global__ void __launch_bounds__(512, RAGGED_BLOCKS) columns_ragged(const Problem given, const int items) {
  using W = Wide<T>;
  constexpr int PACKS = 2 * sizeof(T), AT_ONCE = 32 / PACKS, PITCH = 32 * sizeof(T) + 16, BATCH = 8;
  extern __shared__ Bytes16 memory[];
  __shared__ u64 met;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
  const int parts = cluster_size(), part = cluster_rank();
  const i64 tiles = (given.inner + 31) / 32, tile = block_index() / parts, outer = tile / tiles;
  if (outer >= given.rows / given.inner) return;  // the whole cluster alike
  u8* mine = (u8*)memory + warp * items * PITCH;
  Meeting<T> meeting((u8*)memory + warps * items * PITCH, &met, warps, 32);
  const Problem p = begin(given);
  const i64 inner = (tile - outer * tiles) * 32, share = (p.n + parts - 1) / parts;
  const i64 end = (part + 1) * share < p.n ? (part + 1) * share : p.n, from = part * share + warp * items;
  const int count = end - from < 0 ? 0 : end - from < items ? (int)(end - from) : items;
  const int live = p.inner - inner < 32 ? (int)(p.inner - inner) : 32;
  const u64 x = (u64)((const T*)p.x + outer * p.x_outer + inner + from * p.x_n), stride = p.x_n * sizeof(T);
  const u64 x_end = (u64)((const T*)p.x + (p.rows / p.inner - 1) * p.x_outer + (p.n - 1) * p.x_n + p.inner);
  T* out = (T*)p.out + outer * p.out_outer + inner + lane + from * p.out_n;

  // A word is read if a row of this tile lies in it; the last one of all by its elements, since x may end within it.
  const auto load = [&](int place, int pack) {
    const u64 at = x + place * stride, word = (at & ~(u64)15) + pack * 16;
    T* to = (T*)(mine + place * PITCH + pack * 16);
    if (word >= at + live * sizeof(T)) return;
    if (x_end - word >= 16) {
      copy_async(to, (const void*)word);
    } else {
      for (const T* from = (const T*)word; (u64)from < x_end;) *to++ = *from++;
    }
  };
  const auto load_all = [&](int place, int to) {
    for (int i = place + lane / PACKS; i < to; i += AT_ONCE) load(i, lane % PACKS);
    for (int i = place + lane; i < to; i += 32) load(i, PACKS);  // a word more, where rows begin within one
    commit_async();
  };
  const int half = (items / 2 + BATCH - 1) / BATCH * BATCH, first = count < half ? count : half;
  load_all(0, first);
  load_all(first, count);

  const auto element = [&](int i) {
    return (const T*)(mine + i * PITCH + (((u32)x + i * (u32)stride) & 15)) + lane;
  };
  W m[1] = {lowest<W>()}, s[1] = {0};
  const auto take = [&](int i, int to) {
    __syncwarp();  // lanes read what others have copied
    for (; i < to; i += BATCH) {
      Pack<T, 1> batch[BATCH];
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        if (i + k < to && lane < live) {
          batch[k].value = widen(*element(i + k));
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
  meeting.slots[warp * 32 + lane] = {m[0], s[0]};
  meeting.finish();
  const Pair<W> by = meeting.finishers[lane];
  if (lane >= live) return;
#pragma unroll 8
  for (int i = 0; i < count; ++i, out += p.out_n) narrow(finished<T>(widen(*element(i)), by), *out);
}
