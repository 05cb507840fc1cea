// The minimum of each row in CUDA C++; see min.py for which kernel runs when.
//
// All of it works on bits: a word of 32 (or 64) bits holds as many elements side by side as fit, and least() compares
// them at once. NaN wins everywhere, as in torch, which fminf and the atomics of the hardware would not give.

#include "row.cuh"

// --- Words: least(a, b) element by element, and the identity of each dtype -------------------------------------------

template <class T> struct WordOf { using type = u32; };
template <> struct WordOf<double> { using type = u64; };
template <> struct WordOf<i64> { using type = u64; };
template <class T> using Word = typename WordOf<T>::type;

// In PTX, and not as a < b, since cupy compiles with -ftz=true, which would take a subnormal number for zero.
__device__ inline u32 least(u32 a, u32 b, float) {
  asm("{.reg .f32 x, y; mov.b32 x, %0; mov.b32 y, %1; min.NaN.f32 x, x, y; mov.b32 %0, x;}" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u32 least(u32 a, u32 b, float16) {
  asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u32 least(u32 a, u32 b, bfloat16) {
  asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u64 least(u64 a, u64 b, double) {
  const double x = __longlong_as_double(a), y = __longlong_as_double(b);
  return x != x || x < y ? a : b;  // y where y is NaN, too
}
__device__ inline u32 least(u32 a, u32 b, u8) { return __vminu4(a, b); }
__device__ inline u32 least(u32 a, u32 b, signed char) { return __vmins4(a, b); }
__device__ inline u32 least(u32 a, u32 b, short) { return __vmins2(a, b); }
__device__ inline u32 least(u32 a, u32 b, int) { return (int)a < (int)b ? a : b; }
__device__ inline u64 least(u64 a, u64 b, i64) { return (i64)a < (i64)b ? a : b; }

// +inf, or the dtype's largest number.
__device__ constexpr u32 identity(float) { return 0x7f800000u; }
__device__ constexpr u32 identity(float16) { return 0x7c007c00u; }
__device__ constexpr u32 identity(bfloat16) { return 0x7f807f80u; }
__device__ constexpr u64 identity(double) { return 0x7ff0000000000000ull; }
__device__ constexpr u32 identity(u8) { return 0xffffffffu; }
__device__ constexpr u32 identity(signed char) { return 0x7f7f7f7fu; }
__device__ constexpr u32 identity(short) { return 0x7fff7fffu; }
__device__ constexpr u32 identity(int) { return 0x7fffffffu; }
__device__ constexpr u64 identity(i64) { return 0x7fffffffffffffffull; }

template <class T> __device__ inline Word<T> nothing() { return identity(T{}); }
template <class T> __device__ inline u32 high_word() {
  return (u32)(sizeof(T) == 8 ? (u64)nothing<T>() >> 32 : nothing<T>());
}

// One element in every place of a word, and back: the least of a word's places, in its lowest.
template <class T>
__device__ inline Word<T> spread(const T* x) {
  if constexpr (sizeof(T) == 8) {
    return *(const u64*)x;
  } else if constexpr (sizeof(T) == 4) {
    return *(const u32*)x;
  } else if constexpr (sizeof(T) == 2) {
    return *(const u16*)x * 0x00010001u;
  } else {
    return *(const u8*)x * 0x01010101u;
  }
}

template <class T>
__device__ inline Word<T> fold(Word<T> w) {
  if constexpr (sizeof(T) <= 2) w = least(w, w >> 16 | w << 16, T{});
  if constexpr (sizeof(T) == 1) w = least(w, w >> 8 | w << 24, T{});
  return w;
}

template <class T>
__device__ inline void put(T* out, Word<T> w) {
  w = fold<T>(w);
  if constexpr (sizeof(T) == 8) {
    *(u64*)out = w;
  } else if constexpr (sizeof(T) == 4) {
    *(u32*)out = w;
  } else if constexpr (sizeof(T) == 2) {
    *(u16*)out = (u16)w;
  } else {
    *(u8*)out = (u8)w;
  }
}

template <class T>
__device__ inline Word<T> least_of(const Bytes16& v) {
  if constexpr (sizeof(T) == 8) {
    return least((u64)v.word[1] << 32 | v.word[0], (u64)v.word[3] << 32 | v.word[2], T{});
  } else {
    return least(least(v.word[0], v.word[1], T{}), least(v.word[2], v.word[3], T{}), T{});
  }
}

template <class T>
__device__ inline Word<T> word_of(const Bytes16& v, int k) {
  if constexpr (sizeof(T) == 8) {
    return (u64)v.word[2 * k + 1] << 32 | v.word[2 * k];
  } else {
    return v.word[k];
  }
}
template <class T>
__device__ inline Bytes16 no_elements() {
  return {{(u32)nothing<T>(), high_word<T>(), (u32)nothing<T>(), high_word<T>()}};
}

// --- Reductions ------------------------------------------------------------------------------------------------------

template <class T, int LANES>
__device__ inline Word<T> least_of_lanes(Word<T> w) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) w = least(w, exchange(w, mask), T{});
  return w;
}

// Over the block, behind one barrier; every thread gets it. `slots` (32) may be written again after the next barrier.
template <class T>
__device__ inline Word<T> least_of_block(Word<T> w, Word<T>* slots) {
  const int lane = threadIdx.x & 31;
  w = least_of_lanes<T, 32>(w);
  if (lane == 0) slots[threadIdx.x / 32] = w;
  __syncthreads();
  return least_of_lanes<T, 32>(lane < blockDim.x / 32 ? slots[lane] : nothing<T>());
}

// ITEMS packs from pack `from` on, `step` apart and before `to`, all loaded before the first is compared. Where fewer
// are left, the last one is read again: a minimum does not mind, and no load waits for a predicate.
template <int ITEMS, class T, int V>
__device__ inline Word<T> least_of_batch(const Row<T, V>& row, i64 from, i64 to, int step) {
  if (from >= to) return nothing<T>();
  Word<T> w[ITEMS];
  if constexpr (V > 1) {
    Bytes16 raw[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + i * step;
      raw[i] = load_once(row.x + row.head + (j < to ? j : to - 1) * V);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) w[i] = least_of<T>(raw[i]);
  } else {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + i * step;
      w[i] = spread(row.x + (j < to ? j : to - 1) * row.x_n);
    }
  }
#pragma unroll
  for (int half = ITEMS / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) w[i] = least(w[i], w[i + half], T{});
  }
  return w[0];
}

// Edges of a row for lanes `lane`, `lane + lanes`, ...
template <class T, int V>
__device__ inline Word<T> least_of_edges(const Row<T, V>& row, int lane, int lanes) {
  Word<T> w = nothing<T>();
  if constexpr (V > 1) {
    for (int e = lane; e < row.edges; e += lanes) w = least(w, spread(row.x + row.edge(e)), T{});
  }
  return w;
}

__device__ inline i64 block_index() { return blockIdx.x + (i64)blockIdx.y * gridDim.x; }

// --- rows: one block per row, each tile of it reduced across the block before the next -------------------------------

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3) rows(const Problem given) {
  const Problem p = begin(given);
  __shared__ Word<T> slots[2][32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Word<T> running = nothing<T>();
  int turn = 0;
  for (i64 j = 0; j < row.packs; j += ITEMS * blockDim.x, turn ^= 1) {
    const Word<T> tile = least_of_batch<ITEMS>(row, j + threadIdx.x, row.packs, blockDim.x);
    running = least(running, least_of_block<T>(tile, slots[turn]), T{});
  }
  running = least(running, least_of_block<T>(least_of_edges(row, threadIdx.x, blockDim.x), slots[turn]), T{});
  if (threadIdx.x == 0) put(row.out, running);
}

// --- rows_deferred: the running minimum stays in the lanes until the row's end ---------------------------------------

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024, 1) rows_deferred(const Problem given) {
  const Problem p = begin(given);
  __shared__ Word<T> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Word<T> running = least_of_edges(row, threadIdx.x, blockDim.x);
  for (i64 j = threadIdx.x; j < row.packs; j += ITEMS * blockDim.x) {
    running = least(running, least_of_batch<ITEMS>(row, j, row.packs, blockDim.x), T{});
  }
  running = least_of_block<T>(running, slots);
  if (threadIdx.x == 0) put(row.out, running);
}

// Short rows: LANES lanes a row of at most LANES * ITEMS packs and LANES * EDGES edges, ROWS rows per group of lanes,
// all loaded before the first is used.
template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 8) rows_deferred_lanes(const Problem given) {
  const Problem p = begin(given);
  constexpr int GROUPS = 128 / LANES;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  if (block_index() * ROWS * GROUPS >= p.rows) return;
  Word<T> w[ROWS][ITEMS + EDGES];
  Bytes16 raw[ROWS][ITEMS];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {  // for one k, neighbouring groups take neighbouring rows
    const i64 r = first + k * GROUPS;
    const Row<T, V> row(p, r < p.rows ? r : p.rows - 1);  // past the end, the last row again
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * LANES;
      if constexpr (V > 1) {
        raw[k][i] = no_elements<T>();
        if (j < row.packs) raw[k][i] = load_once(row.x + row.head + j * V);
      } else {
        w[k][i] = nothing<T>();
        if (j < row.packs) w[k][i] = spread(row.x + j * row.x_n);
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * LANES;
      w[k][ITEMS + i] = nothing<T>();
      if (e < row.edges) w[k][ITEMS + i] = spread(row.x + row.edge(e));
    }
  }
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const i64 r = first + k * GROUPS;
    Word<T> least_here = nothing<T>();
#pragma unroll
    for (int i = 0; i < ITEMS + EDGES; ++i) {
      if (V > 1 && i < ITEMS) w[k][i] = least_of<T>(raw[k][i]);
      least_here = least(least_here, w[k][i], T{});
    }
    least_here = least_of_lanes<T, LANES>(least_here);
    if (lane == 0 && r < p.rows) put(Row<T, V>(p, r).out, least_here);
  }
}

// Short contiguous rows of any length: 128 of them, one piece of memory, are copied to shared memory 16 bytes at a
// time, and each thread then walks one.
template <class T>
__global__ void __launch_bounds__(128) rows_deferred_tile(const Problem given) {
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

// --- split: several blocks per row leave their minima behind, and the last to arrive reduces them --------------------

// Whether this block is the last of `chunks` to say that what its threads wrote is there; the counter ends at zero
// again, ready for the next launch.
__device__ inline bool arrives_last(u32* arrived, int chunks) {
  __shared__ u32 before;
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before) : "l"(arrived), "r"(chunks - 1) : "memory");
  }
  __syncthreads();
  return before == chunks - 1;
}

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(256, 3) split(const Problem given, Word<T>* partial, u32* arrived, const int chunks) {
  const Problem p = begin(given);
  __shared__ Word<T> slots[2][32];
  const i64 block = block_index(), r = block / chunks;
  if (r >= p.rows) return;
  const int chunk = (int)(block % chunks);
  const Row<T, V> row(p, r);
  const i64 share = (row.packs + chunks - 1) / chunks, end = (chunk + 1) * share;
  const i64 to = end < row.packs ? end : row.packs;
  Word<T> running = chunk == 0 ? least_of_edges(row, threadIdx.x, blockDim.x) : nothing<T>();
  for (i64 j = chunk * share + threadIdx.x; j < to; j += ITEMS * blockDim.x) {
    running = least(running, least_of_batch<ITEMS>(row, j, to, blockDim.x), T{});
  }
  running = least_of_block<T>(running, slots[0]);
  Word<T>* row_partial = partial + r * chunks;
  if (threadIdx.x == 0) row_partial[chunk] = running;
  if (!arrives_last(arrived + r, chunks)) return;
  running = nothing<T>();
  for (int k = threadIdx.x; k < chunks; k += blockDim.x) running = least(running, row_partial[k], T{});
  running = least_of_block<T>(running, slots[1]);
  if (threadIdx.x == 0) put(row.out, running);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A cluster per row: every warp sends its minimum to the first block through distributed shared memory.
template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, SPLIT_BLOCKS) split_cluster(const Problem given) {
  __shared__ u64 met, slots[16 * 16];
  if (threadIdx.x == 0) {
    init_barrier(&met, 1);
    fence_barriers();
  }
  cluster_arrive();
  const Problem p = begin(given);
  const int parts = cluster_size(), part = cluster_rank(), warps = blockDim.x / 32, lane = threadIdx.x & 31;
  const i64 r = block_index() / parts;
  if (r >= p.rows) return;  // the whole cluster alike
  const Row<T, V> row(p, r);
  const i64 share = (row.packs + parts - 1) / parts, end = (part + 1) * share;
  const i64 to = end < row.packs ? end : row.packs;
  Word<T> running = part == 0 ? least_of_edges(row, threadIdx.x, blockDim.x) : nothing<T>();
  for (i64 j = part * share + threadIdx.x; j < to; j += ITEMS * blockDim.x) {
    running = least(running, least_of_batch<ITEMS>(row, j, to, blockDim.x), T{});
  }
  running = least_of_lanes<T, 32>(running);
  cluster_wait();
  if (lane == 0) send_remote(&slots[part * warps + threadIdx.x / 32], &met, 0, running);
  if (part != 0 || threadIdx.x >= 32) return;
  if (threadIdx.x == 0) arrive_expecting(&met, parts * warps * 8);
  wait_for(&met, 0);
  for (int k = lane; k < parts * warps; k += 32) running = least(running, (Word<T>)slots[k], T{});
  running = least_of_lanes<T, 32>(running);
  if (lane == 0) put(row.out, running);
}

#endif

// --- Columns: the rows lie side by side, so lanes run along them and each thread walks down its own ------------------
//
// A tile is `wide` neighbouring rows. A line of it is their elements at one place, side by side where V > 1: x_lanes lanes
// read the words of V elements that hold it, one each, and `depths` lines are read at a time. Lines may begin within a
// word, as those of an odd number of rows do; a thread goes down lines that begin alike (`depths` is a multiple of V, or
// all lines are, or there are no more), so that each place of its word stays with one row all the way. Places that hold
// another tile's elements are left out at the end.
template <class T, int V>
struct Tile {
  const T* x;
  const T* x_end;
  i64 length, x_n, x_inner;
  int wide, x_lanes, depths;

  __device__ int phase(i64 line) const {
    return V > 1 ? (int)(((u32)(u64)x + (u32)line * (u32)x_n * (u32)sizeof(T) & 15u) / (u32)sizeof(T)) : 0;
  }
  // The word that x ends within is not read as one, since memory may end there too.
  __device__ bool ends_within(const T* at) const { return V > 1 && (u64)at >= ((u64)x_end & ~(u64)15); }

  // This thread's least of each place, to shared memory.
  template <int ITEMS>
  __device__ void walk(T* places) const {
    constexpr int WORDS = V > 1 ? 16 / sizeof(Word<T>) : 1;
    const int lane = threadIdx.x % x_lanes, depth = threadIdx.x / x_lanes;
    if (depth >= depths) return;
    const auto word = [&](i64 line) { return x + line * x_n + lane * V * x_inner - phase(line); };
    Word<T> w[WORDS];
#pragma unroll
    for (int k = 0; k < WORDS; ++k) w[k] = nothing<T>();
    if (lane * V < phase(depth) + wide) {
      const T* at = word(depth);
      const i64 end = ends_within(word(length - 1)) ? length - 1 : length;
      for (i64 j = depth; j < end; j += ITEMS * depths, at += ITEMS * depths * x_n) {
        Word<T> batch[ITEMS][WORDS];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          const bool inside = j + i * depths < end;
          if constexpr (V > 1) {
            const Bytes16 v = load_once_if(inside, at + i * depths * x_n, no_elements<T>());
#pragma unroll
            for (int k = 0; k < WORDS; ++k) batch[i][k] = word_of<T>(v, k);
          } else {
            batch[i][0] = spread(inside ? at + i * depths * x_n : at);  // past the end, an element a second time
          }
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
          for (int k = 0; k < WORDS; ++k) w[k] = least(w[k], batch[i][k], T{});
        }
      }
    }
    if constexpr (V > 1) {
#pragma unroll
      for (int k = 0; k < WORDS; ++k) ((Word<T>*)places)[threadIdx.x * WORDS + k] = w[k];
    } else {
      put(places + threadIdx.x, w[0]);
    }
  }

  // The least of each row, from shared memory to `out`. Where rows are few, groups of threads share the places.
  __device__ void meet(const T* places, Word<T>* slots, T* out, i64 out_step) const {
    __syncthreads();
    const int groups = (int)blockDim.x / wide;
    const auto over = [&](int row, int from, int step) {
      Word<T> w = nothing<T>();
#pragma unroll 4
      for (int d = from; d < depths; d += step) {
        w = least(w, spread(places + d * x_lanes * V + phase(d) + row), T{});
      }
      const T* last = x + (length - 1) * x_n + row;
      if (from == 0 && ends_within(last)) w = least(w, spread(last), T{});
      return w;
    };
    if (groups <= 1) {
      for (int row = threadIdx.x; row < wide; row += blockDim.x) put(out + row * out_step, over(row, 0, 1));
      return;
    }
    if (threadIdx.x < groups * wide) slots[threadIdx.x] = over(threadIdx.x % wide, threadIdx.x / wide, groups);
    __syncthreads();
    if (threadIdx.x < wide) {
      Word<T> w = slots[threadIdx.x];
#pragma unroll 4
      for (int k = 1; k < groups; ++k) w = least(w, slots[k * wide + threadIdx.x], T{});
      put(out + threadIdx.x * out_step, w);
    }
  }
};

// A tile, of at most `step` rows, to a block. With SPLIT, `chunks` blocks share the reduced axis, as in split: their
// minima are a tile too.
template <class T, int V, int ITEMS, bool SPLIT>
__global__ void __launch_bounds__(SPLIT ? 256 : 512, SPLIT ? 3 : 2)
    columns(const Problem given, T* partial, u32* arrived, const int chunks, const i64 share, const i64 tiles,
            const int step, const int x_lanes, const int depths) {
  const Problem p = begin(given);
  __shared__ Bytes16 memory[V > 1 ? 512 : 512 * sizeof(T) / 16];
  __shared__ Word<T> slots[512];
  T* places = (T*)memory;
  // Blocks that share columns are few: 32 bits hold their number.
  const i64 at = SPLIT ? blockIdx.x / (u32)chunks : block_index(), outer = SPLIT ? (u32)at / (u32)tiles : at / tiles;
  const i64 first = (at - outer * tiles) * step;
  const int chunk = SPLIT ? blockIdx.x - (u32)at * chunks : 0;
  const int wide = p.inner - first < step ? (int)(p.inner - first) : step;
  const i64 from = chunk * share, length = p.n - from < share ? p.n - from : share;
  const i64 outermost = (i64)((double)p.rows * p.inner_inverse + 0.5) - 1;
  if (outer > outermost) return;
  const T* x = (const T*)p.x;
  const T* x_end = x + outermost * p.x_outer + (p.n - 1) * p.x_n + p.inner;
  x += outer * p.x_outer + from * p.x_n + first * p.x_inner;

  Tile<T, V> tile{x, x_end, length, p.x_n, p.x_inner, wide, x_lanes, depths};
  for (bool shared = SPLIT;; shared = false) {
    tile.template walk<ITEMS>(places);
    if (!shared) break;
    const int pitch = x_lanes * V, beyond = wide + threadIdx.x;
    T *all = partial + at * chunks * pitch, *mine = all + chunk * pitch;
    tile.meet(places, slots, mine, 1);
    if (threadIdx.x + 1 < V && beyond < pitch) put(mine + beyond, nothing<T>());  // the rest of the last word
    if (!arrives_last(arrived + at, chunks)) return;
    asm volatile("" : "+l"(all) :: "memory");  // no load is moved ahead of the arrival
    tile = {all, all + chunks * pitch, chunks, pitch, 1, wide, x_lanes, depths};
  }
  tile.meet(places, slots, (T*)p.out + outer * p.out_outer + first * p.out_inner, p.out_inner);
}

// --- Columns of fewer rows than a word holds: all of memory as one piece ---------------------------------------------
//
// `active` threads, a multiple of the rows, walk over it pack by pack, so that each place of a thread's pack stays with
// one row all the way; the places meet at the end, and blocks as in split.
template <class T, int ITEMS>
__global__ void __launch_bounds__(512, 2) columns_flat(const Problem given, Word<T>* partial, u32* arrived) {
  const Problem p = begin(given);
  constexpr int V = 16 / sizeof(T), WORDS = 16 / sizeof(Word<T>);
  __shared__ Bytes16 places[512];
  __shared__ Word<T> slots[512];
  const int rows = (int)p.inner, groups = blockDim.x / rows, active = groups * rows, row = threadIdx.x % rows;
  const int group = threadIdx.x / rows;
  const i64 total = p.n * rows, packs = total / V, turns = (packs + active - 1) / active;
  const i64 share = (turns + gridDim.x - 1) / gridDim.x, from = blockIdx.x * share * active + threadIdx.x;
  const i64 end = (blockIdx.x + 1) * share * active, to = end < packs ? end : packs;
  const T* x = (const T*)p.x;

  Word<T> w[WORDS];
#pragma unroll
  for (int k = 0; k < WORDS; ++k) w[k] = nothing<T>();
  if (group < groups) {
    for (i64 j = from; j < to; j += ITEMS * active) {
      Bytes16 raw[ITEMS];
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const i64 at = j + i * active;
        raw[i] = load_once(x + (at < to ? at : j) * V);  // past the end, a pack a second time
      }
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) w[k] = least(w[k], word_of<T>(raw[i], k), T{});
      }
    }
#pragma unroll
    for (int k = 0; k < WORDS; ++k) ((Word<T>*)places)[threadIdx.x * WORDS + k] = w[k];
  }
  __syncthreads();
  // `group` takes every groups-th of its row's places, then of its row's blocks.
  const T* flat = (const T*)places;
  Word<T> least_here = nothing<T>();
  if (group < groups) {
    for (int k = group; k < groups * V; k += groups) least_here = least(least_here, spread(flat + row + k * rows), T{});
    if (blockIdx.x == 0) {
      for (i64 e = packs * V; e < total; ++e) {
        if (e % rows == row) least_here = least(least_here, spread(x + e), T{});
      }
    }
  }
  const auto meet_groups = [&] {
    __syncthreads();
    slots[threadIdx.x] = least_here;
    __syncthreads();
    if (threadIdx.x < rows) {
      for (int k = 1; k < groups; ++k) least_here = least(least_here, slots[k * rows + threadIdx.x], T{});
    }
  };
  meet_groups();
  if (threadIdx.x < rows) partial[(i64)blockIdx.x * rows + threadIdx.x] = least_here;
  if (!arrives_last(arrived, gridDim.x)) return;
  least_here = nothing<T>();
  if (group < groups) {
#pragma unroll 8
    for (int k = group; k < gridDim.x; k += groups) least_here = least(least_here, partial[(i64)k * rows + row], T{});
  }
  meet_groups();
  if (threadIdx.x < rows) put((T*)p.out + threadIdx.x * p.out_inner, least_here);
}

// --- Atomics: the reduced axis is spread over the chip, and minima meet in memory ------------------------------------
//
// Where they meet (Target) an atomic must exist: float and double by their bits, narrow dtypes in a workspace of 32
// bits. Of floats, the non-negative ones order as signed integers and the negative ones the other way round as
// unsigned ones; all ones, a NaN, is below everything to the one comparison and above everything to the other.

template <class T> struct TargetOf { using type = int; };
template <> struct TargetOf<float> { using type = float; };
template <> struct TargetOf<float16> { using type = float; };
template <> struct TargetOf<bfloat16> { using type = float; };
template <> struct TargetOf<double> { using type = double; };
template <> struct TargetOf<i64> { using type = i64; };
template <class T> using Target = typename TargetOf<T>::type;

// The lowest place of a folded word, as its target's bits: exact.
__device__ inline u32 as_target(u32 w, float) { return w; }
__device__ inline u32 as_target(u32 w, int) { return w; }
__device__ inline u64 as_target(u64 w, double) { return w; }
__device__ inline u64 as_target(u64 w, i64) { return w; }
__device__ inline u32 as_target(u32 w, u8) { return w & 0xffu; }
__device__ inline u32 as_target(u32 w, signed char) { return (u32)(int)(signed char)w; }
__device__ inline u32 as_target(u32 w, short) { return (u32)(int)(short)w; }
__device__ inline u32 as_target(u32 w, bfloat16) { return w << 16; }
__device__ inline u32 as_target(u32 w, float16) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"((u16)w));
  return __float_as_uint(wide);
}

__device__ inline u8 from_target(u32 bits, u8) { return (u8)bits; }
__device__ inline signed char from_target(u32 bits, signed char) { return (signed char)bits; }
__device__ inline short from_target(u32 bits, short) { return (short)bits; }
__device__ inline bfloat16 from_target(u32 bits, bfloat16) { return {(u16)(bits >> 16)}; }
__device__ inline float16 from_target(u32 bits, float16) {
  float16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(__uint_as_float(bits)));
  return half;
}

__device__ inline void atomic_least(float* at, u32 bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0xffffffffu;
  if ((int)bits < 0) {
    atomicMax((u32*)at, bits);
  } else {
    atomicMin((int*)at, (int)bits);
  }
}
__device__ inline void atomic_least(double* at, u64 bits) {
  if ((bits & 0x7fffffffffffffffull) > 0x7ff0000000000000ull) bits = ~0ull;
  if ((i64)bits < 0) {
    atomicMax((u64*)at, bits);
  } else {
    atomicMin((i64*)at, (i64)bits);
  }
}
__device__ inline void atomic_least(int* at, u32 bits) { atomicMin(at, (int)bits); }
__device__ inline void atomic_least(i64* at, u64 bits) { atomicMin(at, (i64)bits); }

// Target of row r: in the workspace where there is one, else in the output.
template <class T>
__device__ inline Target<T>* target(const Problem& p, Target<T>* workspace, i64 r) {
  if constexpr (sizeof(T) < 4) {
    return workspace + r;
  } else {
    return (Target<T>*)Row<T, 1>(p, r).out;
  }
}

// The first step of an atomic minimum.
template <class T>
__global__ void __launch_bounds__(256) fill(const Problem given, Target<T>* workspace) {
  const Problem p = begin(given);
  const i64 r = block_index() * 256 + threadIdx.x;
  if (r < p.rows) *(Word<T>*)target<T>(p, workspace, r) = identity(Target<T>{});
}

// Its last one, for narrow dtypes.
template <class T>
__global__ void __launch_bounds__(256) narrow(const Problem given, const Target<T>* workspace) {
  const Problem p = begin(given);
  const i64 r = block_index() * 256 + threadIdx.x;
  if (r >= p.rows) return;
  T* out = Row<T, 1>(p, r).out;
  *out = from_target(*(const u32*)(workspace + r), T{});
}

// Block (p, q): columns [p * block_n, (p + 1) * block_n) in packs, row tiles q, q + gridDim.y, ... of a row per warp.
// The edges of a row belong to p = 0. BATCHED holds the minima of all its rows in shared memory and sends them out
// together, once (past 2^26 rows, which gridDim.y has no blocks for, once every 1024 rows).
template <class T, int V, int ITEMS, bool BATCHED>
__global__ void __launch_bounds__(256, BATCHED ? 4 : 3)
    atomic(const Problem given, Target<T>* workspace, const i64 block_n) {
  const Problem p = begin(given);
  constexpr int WARPS = 8, ROWS = 1024;
  __shared__ Word<T> batch[BATCHED ? ROWS : 1];
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const i64 from = blockIdx.x * block_n, step = (i64)gridDim.y * WARPS;
  int held = 0;
  for (i64 tile = (i64)blockIdx.y * WARPS; tile < p.rows; tile += step) {
    const i64 r = tile + warp;
    Word<T> w = nothing<T>();
    if (r < p.rows) {  // a warp alike
      const Row<T, V> row(p, r);
      const i64 to = from + block_n < row.packs ? from + block_n : row.packs;
      if (blockIdx.x == 0) w = least_of_edges(row, lane, 32);
      for (i64 j = from + lane; j < to; j += ITEMS * 32) w = least(w, least_of_batch<ITEMS>(row, j, to, 32), T{});
      w = fold<T>(least_of_lanes<T, 32>(w));
      if (!BATCHED && lane == 0) atomic_least(target<T>(p, workspace, r), as_target(w, T{}));
    }
    if constexpr (BATCHED) {
      if (lane == 0) batch[held + warp] = w;
      held += WARPS;
      if (held == ROWS || tile + step >= p.rows) {  // the block alike
        __syncthreads();
        const i64 first = tile - (held / WARPS - 1) * step;
        for (int k = threadIdx.x; k < held; k += 256) {
          const i64 row = first + k / WARPS * step + k % WARPS;
          if (row < p.rows) atomic_least(target<T>(p, workspace, row), as_target(batch[k], T{}));
        }
        __syncthreads();
        held = 0;
      }
    }
  }
}
