// Columns: adjacent rows are adjacent in memory. So adjacent lanes read adjacent columns, and each loops down its own.
// A block processes a strip of LANES * V adjacent columns, and reads THREADS / LANES elements of each at a time. A
// thread keeps its first ITEMS packs in registers and reads the rest again. If SPLIT, `parts` blocks of a co-operative
// launch share a strip. They merge all pairs in the same order, so that all get the same bits.
#include "pairs.cuh"

// Add a batch of packs to the running pairs of adjacent columns.
template <class T, int V, int ITEMS>
__device__ inline void online_update_columns(Wide<T> (&m)[V], Wide<T> (&s)[V], Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  W v[V], next[V];
  UNROLL for (int k = 0; k < V; ++k) next[k] = m[k];
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
    UNROLL for (int k = 0; k < V; ++k) next[k] = maximum(next[k], v[k]);
  }
  keep_packed(items);
  UNROLL for (int k = 0; k < V; ++k) s[k] *= exponential(m[k] - zero_if_empty(next[k])), m[k] = next[k], next[k] = 0;
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
    UNROLL for (int k = 0; k < V; ++k) next[k] += exponential(v[k] - zero_if_empty(m[k]));
  }
  UNROLL for (int k = 0; k < V; ++k) s[k] += next[k];  // one addition per batch: fewer roundings in the long sum
}

// Load a batch of packs of adjacent columns, `step` elements apart. All but the first `left` packs are -inf.
template <class T, int V, int ITEMS>
__device__ inline void load_column_batch(Pack<T, V> (&items)[ITEMS], const T* x, i64 step, int left) {
  UNROLL for (int i = 0; i < ITEMS; ++i) i < left ? items[i].load(x + i * step) : items[i].empty();
}

// Words are sent with all bits inverted. So no word of a pair is 0, because the maximum is never NaN.
__device__ inline void send_pair(u64* at, int, Pair<float> pair) {
  send_word(at, ~((u64)__float_as_uint(pair.s) << 32 | __float_as_uint(pair.m)));
}
__device__ inline void send_pair(u64* at, int step, Pair<double> pair) {
  send_word(at, ~__double_as_longlong(pair.m));
  // Send every NaN as the same bits.
  send_word(at + step, ~(pair.s == pair.s ? __double_as_longlong(pair.s) : 0x7ff8ull << 48));
}
__device__ inline Pair<float> pair_of(const u64 (&words)[1]) {
  return {__uint_as_float((u32)~words[0]), __uint_as_float((u32)(~words[0] >> 32))};
}
__device__ inline Pair<double> pair_of(const u64 (&words)[2]) {
  return {__longlong_as_double(~words[0]), __longlong_as_double(~words[1])};
}

// Merge COUNT pairs of a column, `step` apart.
template <int COUNT, class W>
__device__ inline Pair<W> merge_column(const Pair<W>* pairs, int step) {
  constexpr int TOGETHER = sizeof(W) == 8 ? 1 : COUNT > 8 ? 4 : COUNT;  // more would take too many registers
  W top = minus_infinity<W>(), sum = 0;
#pragma unroll(TOGETHER)
  for (int k = 0; k < COUNT; ++k) top = maximum(top, pairs[k * step].m);
  const W shift = zero_if_empty(top);
#pragma unroll(TOGETHER)
  for (int k = 0; k < COUNT; ++k) sum += pairs[k * step].s * exponential(pairs[k * step].m - shift);
  return {top, sum};
}

constexpr int COLUMN_WORDS = 16;  // words before the pairs in the workspace: a cache line; the first word counts blocks

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int SINGLE_THREADS = 1024;
#else
constexpr int SINGLE_THREADS = 768;  // for other devices the compiler would spill with more threads
#endif

// Threads per SM: 512 of 128 registers each, or more of 64 for single elements.
template <class T, int V, bool SPLIT>
constexpr int COLUMN_THREADS = sizeof(T) == 8 || V > 1 || SPLIT ? 512 : SINGLE_THREADS;

template <class T, int V, int ITEMS, int LANES, int THREADS, bool SPLIT>
__global__ void __launch_bounds__(THREADS, COLUMN_THREADS<T, V, SPLIT> / THREADS)
    columns(const Problem given, u64* arrivals, const int parts) {
  const Problem p = wait_for_previous_launch(given);
  using W = Wide<T>;
  constexpr bool EXPONENTIALS = sizeof(T) == sizeof(W) || V == 1;
  constexpr int BATCH = V == 8 ? 2 : 4;  // eight columns per pack need eight pairs: two packs fill the registers
  constexpr int WIDE = LANES * V, DEPTHS = THREADS / LANES, TEAMS = THREADS / 32, RECEIVERS = THREADS / WIDE;
  constexpr int WORDS = sizeof(W) / 4, AT_ONCE = sizeof(W) == 8 ? 1 : V == 4 ? 2 : 4;
  __shared__ Pair<W> slots[TEAMS * WIDE > THREADS ? TEAMS * WIDE : THREADS], normalizers[WIDE];
  const int lane = threadIdx.x % LANES, depth = threadIdx.x / LANES;
  const i64 strips = (p.inner + WIDE - 1) / WIDE, all_strips = p.rows / p.inner * strips;
  const int part = SPLIT ? (int)(blockIdx.x % parts) : 0;
  const i64 group = SPLIT ? blockIdx.x / parts : block_index(), groups = SPLIT ? gridDim.x / parts : all_strips;
  const i64 share = SPLIT ? (p.n + parts - 1) / parts : p.n, first = SPLIT ? part * share : 0;
  const i64 end = first + share < p.n ? first + share : p.n;
  const i64 pairs_of_a_launch = all_strips * parts * WIDE * WORDS;
  u64 launch = 0;  // which of two sets of pairs: each launch clears the other set for the next launch
  if constexpr (SPLIT) launch = peek_word(arrivals) / gridDim.x & 1;

  for (i64 g = group; g < all_strips; g += groups) {
    const i64 outer = all_strips >> 32 ? g / strips : (u32)g / (u32)strips;
    const i64 inner = (g - outer * strips) * WIDE + lane * V, from = first + depth;
    const int count = inner < p.inner && from < end ? (int)((end - from + DEPTHS - 1) / DEPTHS) : 0;
    const i64 x_step = DEPTHS * p.x_n, out_step = DEPTHS * p.out_n;
    const T* x = (const T*)p.x + outer * p.x_outer + inner * p.x_inner + from * p.x_n;
    T* out = (T*)p.out + outer * p.out_outer + inner * p.out_inner + from * p.out_n;

    W m[V], s[V], v[V], own[V];
    Pack<T, V> items[ITEMS];
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      items[i].empty();
      if constexpr (V > 1) items[i].raw = load_kept_if(i < count, x + i * x_step, items[i].raw);
      else if (i < count) items[i].load(x + i * x_step);
    }
    UNROLL for (int k = 0; k < V; ++k) m[k] = minus_infinity<W>(), s[k] = 0;
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
      UNROLL for (int k = 0; k < V; ++k) m[k] = maximum(m[k], v[k]);
    }
    if constexpr (!EXPONENTIALS) keep_packed(items);
    UNROLL for (int k = 0; k < V; ++k) own[k] = m[k];
    UNROLL for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
      UNROLL for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - zero_if_empty(own[k])), s[k] += v[k];
      if constexpr (EXPONENTIALS) items[i].set(v);
    }
    if constexpr (!EXPONENTIALS) keep_packed(items);
    for (int i = ITEMS; i < count; i += BATCH) {
      Pack<T, V> batch[BATCH];
      load_column_batch(batch, x + i * x_step, x_step, count - i);
      online_update_columns(m, s, batch);
    }

    // Merge over the lanes of a warp that share a column, then over warps, then over blocks.
    UNROLL for (int k = 0; k < V; ++k) {
      const auto warp = warp_merge<32, LANES>(Pair<W>{m[k], s[k]});
      if ((threadIdx.x & 31) < LANES) slots[threadIdx.x / 32 * WIDE + lane * V + k] = warp;
    }
    __syncthreads();
    Pair<W> all = {minus_infinity<W>(), 0};
    if (threadIdx.x < WIDE) all = merge_column<TEAMS>(slots + threadIdx.x, WIDE);
    if constexpr (SPLIT) {
      u64* here = arrivals + COLUMN_WORDS + launch * pairs_of_a_launch + g * parts * WIDE * WORDS;
      if (threadIdx.x < WIDE) {
        u64* mine = here + (i64)part * WIDE * WORDS + threadIdx.x;
        send_pair(mine, WIDE, all);
        u64* next = launch ? mine - pairs_of_a_launch : mine + pairs_of_a_launch;
        UNROLL for (int k = 0; k < WORDS; ++k) next[k * WIDE] = 0;
      }
      __syncthreads();  // all threads have read the slots
      const int column = threadIdx.x % WIDE;
      Pair<W> run = {minus_infinity<W>(), 0};
      for (int other = threadIdx.x / WIDE; other < parts; other += AT_ONCE * RECEIVERS) {
        u64 got[AT_ONCE][WORDS];
        bool missing = true;
        while (missing) {
          missing = false;
          UNROLL for (int i = 0; i < AT_ONCE; ++i) {
            UNROLL for (int k = 0; k < WORDS; ++k) {
              const int from_part = other + i * RECEIVERS;
              got[i][k] = 1;
              if (from_part < parts) got[i][k] = peek_word(here + ((i64)from_part * WORDS + k) * WIDE + column);
            }
          }
          UNROLL for (int i = 0; i < AT_ONCE; ++i) UNROLL for (int k = 0; k < WORDS; ++k) missing |= got[i][k] == 0;
        }
        UNROLL for (int i = 0; i < AT_ONCE; ++i) if (other + i * RECEIVERS < parts) run = merge(run, pair_of(got[i]));
      }
      slots[threadIdx.x] = run;
      __syncthreads();
      if (threadIdx.x < WIDE) all = merge_column<RECEIVERS>(slots + threadIdx.x, WIDE);
    }
    if (threadIdx.x < WIDE) normalizers[threadIdx.x] = normalizer<T>(all);
    __syncthreads();
    W scale[V];
    UNROLL for (int k = 0; k < V; ++k) {
      const Pair<W> by = normalizers[lane * V + k];
      m[k] = by.m, s[k] = by.s;
      scale[k] = normalize<T>(own[k], by);
    }

    UNROLL for (int i = 0; i < ITEMS; ++i) {
      if (i < count) {
        items[i].get(v);
        UNROLL for (int k = 0; k < V; ++k) v[k] = EXPONENTIALS ? v[k] * scale[k] : normalize<T>(v[k], {m[k], s[k]});
        items[i].set(v);
        items[i].template store<true>(out + i * out_step, true);
      }
    }
    for (int i = ITEMS; i < count; i += BATCH) {
      Pack<T, V> batch[BATCH];
      load_column_batch(batch, x + i * x_step, x_step, count - i);
      UNROLL for (int k = 0; k < BATCH; ++k) {
        if (i + k < count) {
          batch[k].get(v);
          UNROLL for (int h = 0; h < V; ++h) v[h] = normalize<T>(v[h], {m[h], s[h]});
          batch[k].set(v);
          batch[k].store(out + (i + k) * out_step, true);
        }
      }
    }
  }
  if constexpr (SPLIT) if (threadIdx.x == 0) count_up(arrivals);
}
