// Softmax in CUDA C++: out = exp(x - max) / sum(exp(x - max)) over each row; see softmax.py for which kernel runs
// when.
//
// Every kernel keeps, per thread, a pair (m, s): the maximum of what the thread has read and the sum of exp(x - m)
// over it. Pairs merge as in M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, in an order
// fixed by the lanes' numbers. Where the mathematics says exp(-inf - -inf), zero_if_empty(m) puts exp(-inf - 0) = 0 in
// its place; a row of -inf alone then ends as 0 / 0, and a NaN or +inf reaches the sum, so that its whole row is NaN.

#include "row.cuh"

// --- Arithmetic: half precisions in float, double in double ----------------------------------------------------------

template <class T> struct WideOf { using type = float; };
template <> struct WideOf<double> { using type = double; };
template <class T> using Wide = typename WideOf<T>::type;

__device__ inline float widen(float v) { return v; }
__device__ inline double widen(double v) { return v; }
__device__ inline float widen(bfloat16 v) { return __uint_as_float((u32)v.bits << 16); }
__device__ inline float widen(float16 v) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
  return wide;
}

__device__ inline void narrow(float v, float& to) { to = v; }
__device__ inline void narrow(double v, double& to) { to = v; }
__device__ inline void narrow(float v, float16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v)); }
__device__ inline void narrow(float v, bfloat16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v)); }

__device__ inline u32 two_halves(float low, float high, float16) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline u32 two_halves(float low, float high, bfloat16) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// The difference comes first and the scale to base 2 second: scaling x itself would lose the digits of a large offset.
__device__ inline float exponential(float d) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(d * 1.4426950408889634f));
  return e;
}
__device__ inline double exponential(double d) { return exp(d); }

__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return a > b ? a : b; }

template <class W> __device__ inline W lowest() { return -__int_as_float(0x7f800000); }
template <class W> __device__ inline W zero_if_empty(W m) { return m == lowest<W>() ? W(0) : m; }

template <class W> struct Pair { W m, s; };

// What turns an element into its result, of a row's merged pair: e^(x - shift) * scale, for half precisions
// 2^((x - shift) * log2(e) + scale), an instruction less, whose rounding their own hides.
template <class T>
__device__ inline Pair<Wide<T>> finisher(Pair<Wide<T>> all) {
  if constexpr (sizeof(T) == 2) {
    return {zero_if_empty(all.m), -log2f(all.s)};
  } else {
    return {zero_if_empty(all.m), Wide<T>(1) / all.s};
  }
}
template <class T>
__device__ inline Wide<T> finished(Wide<T> v, Pair<Wide<T>> by) {
  if constexpr (sizeof(T) == 2) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(fmaf(v - by.m, 1.4426950408889634f, by.s)));
    return e;
  } else {
    return exponential(v - by.m) * by.s;
  }
}

// --- Packs: V elements in 16 bytes, or one ---------------------------------------------------------------------------

template <class T, int V>
struct Pack {
  static_assert(V * sizeof(T) == 16, "a pack is 16 bytes");
  Bytes16 raw;

  __device__ void empty() {
    constexpr u32 odd = sizeof(T) == 8 ? 0xfff00000u : sizeof(T) == 4 ? 0xff800000u : 0u;
    constexpr u32 even = sizeof(T) == 8 ? 0u : odd;
    raw = Bytes16{{even, odd, even, odd}};
  }
  // KEPT: see load_kept and store_plain.
  template <bool KEPT = false> __device__ void load(const T* x, i64) {
    raw = KEPT ? load_kept(x) : load_once(x);
  }
  __device__ void get(Wide<T> (&v)[V]) const {
    if constexpr (sizeof(T) == 8) {
      v[0] = __hiloint2double(raw.word[1], raw.word[0]);
      v[1] = __hiloint2double(raw.word[3], raw.word[2]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = __uint_as_float(raw.word[k]);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = widen(T{(u16)(raw.word[k / 2] >> (k % 2 * 16))});
    }
  }
  __device__ void set(const Wide<T> (&v)[V]) {
    if constexpr (sizeof(T) == 8) {
      raw = Bytes16{{(u32)__double2loint(v[0]), (u32)__double2hiint(v[0]), (u32)__double2loint(v[1]),
                     (u32)__double2hiint(v[1])}};
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
      for (int k = 0; k < 4; ++k) raw.word[k] = __float_as_uint(v[k]);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) raw.word[k] = two_halves(v[2 * k], v[2 * k + 1], T{});
    }
  }
  template <bool KEPT = false> __device__ void store(T* out, i64 out_n, bool packed) const {
    if (packed) {
      KEPT ? store_plain(out, raw) : store_once(out, raw);
      return;
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {  // the output's rows start elsewhere in a 16-byte word than the input's
      if constexpr (sizeof(T) == 8) {
        out[k] = __hiloint2double(raw.word[2 * k + 1], raw.word[2 * k]);
      } else if constexpr (sizeof(T) == 4) {
        out[k] = __uint_as_float(raw.word[k]);
      } else {
        out[k] = T{(u16)(raw.word[k / 2] >> (k % 2 * 16))};
      }
    }
  }

};

template <> __device__ inline void Pack<float16, 8>::empty() {
  raw = Bytes16{{0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u}};
}
template <> __device__ inline void Pack<bfloat16, 8>::empty() {
  raw = Bytes16{{0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u}};
}

template <class T>
struct Pack<T, 1> {
  Wide<T> value;

  __device__ void empty() { value = lowest<Wide<T>>(); }
  template <bool KEPT = false> __device__ void load(const T* x, i64) { value = widen(*x); }
  __device__ void get(Wide<T> (&v)[1]) const { v[0] = value; }
  __device__ void set(const Wide<T> (&v)[1]) { value = v[0]; }
  template <bool KEPT = false> __device__ void store(T* out, i64, bool) const { narrow(value, *out); }
};

__device__ inline u32 larger_halves(u32 a, u32 b, float16) {
  asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u32 larger_halves(u32 a, u32 b, bfloat16) {
  asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}

// The largest element of some packs, any NaN dropped (the sum will show it). Half precisions are compared two at a
// time.
template <class T, int V, int ITEMS>
__device__ inline Wide<T> top_of(const Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
    u32 top = items[0].raw.word[0];
#pragma unroll
    for (int k = 1; k < 4 * ITEMS; ++k) top = larger_halves(top, items[k / 4].raw.word[k % 4], T{});
    return larger(widen(T{(u16)top}), widen(T{(u16)(top >> 16)}));
  } else {
    Wide<T> top = lowest<Wide<T>>(), v[V];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) top = larger(top, v[k]);
    }
    return top;
  }
}

// Half precisions stay two to a register from one pass over them to the next: the compiler, left to itself, would keep
// the widened values and spill.
template <class T, int V, int ITEMS>
__device__ inline void keep_packed(Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
#pragma unroll
    for (int k = 0; k < 4 * ITEMS; ++k) asm volatile("" : "+r"(items[k / 4].raw.word[k % 4]));
  }
}

// Sum of a pack's elements, pairwise.
template <class W, int V>
__device__ inline W sum_of(const W (&v)[V]) {
  W t[V];
#pragma unroll
  for (int k = 0; k < V; ++k) t[k] = v[k];
#pragma unroll
  for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
    for (int k = 0; k < half; ++k) t[k] += t[k + half];
  }
  return t[0];
}

// --- A thread's part of a row, held in registers: ITEMS packs and EDGES edge elements --------------------------------

template <class T, int V, int ITEMS, int EDGES>
struct Held {
  using W = Wide<T>;
  // The exponentials are kept: in place of the elements where the dtype is as wide as its arithmetic, beside them where
  // half precisions are few. Of more of those they are computed twice, for want of registers.
  static constexpr bool IN_PLACE = V == 1 || sizeof(T) == sizeof(W), KEPT = IN_PLACE || ITEMS <= 4;

  Pack<T, V> items[ITEMS];
  W edges[EDGES ? EDGES : 1];
  W wide[IN_PLACE || !KEPT ? 1 : ITEMS * V];

  // Lane `lane` of `lanes`. What lies past the row's end is -inf, which adds nothing. All loads are issued before the
  // first is waited for.
  __device__ void load(const Row<T, V>& row, int lane, int lanes, bool live = true) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if (live && j < row.packs) {
        items[i].template load<true>(row.x + row.head + j * (V > 1 ? (i64)V : row.x_n), row.x_n);
      } else {
        items[i].empty();
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * lanes;
      edges[i] = live && e < row.edges ? widen(row.x[row.edge(e)]) : lowest<W>();
    }
  }

  __device__ W top() const {
    W m = top_of(items);
#pragma unroll
    for (int i = 0; i < EDGES; ++i) m = larger(m, edges[i]);
    return m;
  }

  __device__ Pair<W> exponentials() { return exponentials(top()); }
  __device__ Pair<W> exponentials(const W m) {
    const W shift = zero_if_empty(m);
    W s = 0, v[V];
    keep_packed(items);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
      s += sum_of(v);
      if constexpr (IN_PLACE) {
        items[i].set(v);
      } else if constexpr (KEPT) {
#pragma unroll
        for (int k = 0; k < V; ++k) wide[i * V + k] = v[k];
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const W e = exponential(edges[i] - shift);
      s += e;
      if constexpr (KEPT) edges[i] = e;
    }
    if constexpr (!KEPT) keep_packed(items);
    return {m, s};
  }

  // `own` is what exponentials() returned, `all` the whole row's pair.
  __device__ void write(const Row<T, V>& row, int lane, int lanes, Pair<W> own, Pair<W> all) {
    const W shift = zero_if_empty(all.m), inverse = W(1) / all.s;
    const bool agreed = sizeof(W) == 8 && own.m == all.m;  // on the maximum, by merge_held
    const W scale = KEPT && !agreed ? exponential(own.m - shift) * inverse : inverse;
    W v[V];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int j = lane + i * lanes;
      if (j < row.packs) {
        if constexpr (IN_PLACE || !KEPT) items[i].get(v);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          if constexpr (IN_PLACE) {
            v[k] *= scale;
          } else if constexpr (KEPT) {
            v[k] = wide[i * V + k] * scale;
          } else {
            v[k] = exponential(v[k] - shift) * scale;
          }
        }
        items[i].set(v);
        auto* out = row.out + row.head + j * (V > 1 ? (i64)V : row.out_n);
        items[i].template store<true>(out, row.out_n, row.out_packed);
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
      const int e = lane + i * lanes;
      if (e < row.edges) narrow((KEPT ? edges[i] : exponential(edges[i] - shift)) * scale, row.out[row.edge(e)]);
    }
  }
};

// --- Merging pairs ---------------------------------------------------------------------------------------------------

template <class W>
__device__ inline Pair<W> merge(Pair<W> a, Pair<W> b) {
  const W m = larger(a.m, b.m), shift = zero_if_empty(m);
  return {m, a.s * exponential(a.m - shift) + b.s * exponential(b.m - shift)};
}

// Over LANES neighbouring lanes, a power of two; every lane gets the result, and the same bits.
template <int LANES, class W>
__device__ inline Pair<W> merge_lanes(Pair<W> own) {
  W m = own.m, s = own.s;
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
  s *= exponential(own.m - zero_if_empty(m));
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) s += exchange(s, mask);
  return {m, s};
}

// Over `count` pairs in memory, by every warp alike.
template <class W>
__device__ inline Pair<W> merge_slots(const Pair<W>* slots, int count) {
  const int lane = threadIdx.x & 31;
  W m = lowest<W>(), s = 0;
  for (int k = lane; k < count; k += 32) m = larger(m, slots[k].m);
  const W shift = zero_if_empty(m);
  for (int k = lane; k < count; k += 32) s += slots[k].s * exponential(slots[k].m - shift);
  return merge_lanes<32>(Pair<W>{m, s});
}

// Over the block, behind one barrier. `slots` (32 pairs) may be written again after the next barrier.
template <class W>
__device__ inline Pair<W> merge_block(Pair<W> own, Pair<W>* slots) {
  own = merge_lanes<32>(own);
  if ((threadIdx.x & 31) == 0) slots[threadIdx.x / 32] = own;
  __syncthreads();
  return merge_slots(slots, blockDim.x / 32);
}

// The pair of a row that LANES lanes, or a block, hold, and in `own` the thread's. In double they agree on the row's
// maximum first: to meet once, and go over from a thread's own maximum to the row's, costs each thread three exponentials
// more, of some twenty instructions each.
template <int LANES, class W>
__device__ inline W larger_of_lanes(W m) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
  return m;
}
template <int LANES, class W>
__device__ inline W sum_of_lanes(W s) {
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask /= 2) s += exchange(s, mask);
  return s;
}

template <int LANES, class Held, class W>
__device__ inline Pair<W> merge_held(Held& held, Pair<W>& own) {
  if constexpr (sizeof(W) == 8) {
    own = held.exponentials(larger_of_lanes<LANES>(held.top()));
    return {own.m, sum_of_lanes<LANES>(own.s)};
  } else {
    own = held.exponentials();
    return merge_lanes<LANES>(own);
  }
}

template <class Held, class W>
__device__ inline Pair<W> merge_held_by_block(Held& held, Pair<W>& own, Pair<W>* slots) {
  if constexpr (sizeof(W) == 8) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, warps = blockDim.x / 32;
    const W top = larger_of_lanes<32>(held.top());
    if (lane == 0) slots[warp].m = top;
    __syncthreads();
    own = held.exponentials(larger_of_lanes<32>(lane < warps ? slots[lane].m : lowest<W>()));
    const W sum = sum_of_lanes<32>(own.s);
    if (lane == 0) slots[warp].s = sum;
    __syncthreads();
    return {own.m, sum_of_lanes<32>(lane < warps ? slots[lane].s : W(0))};
  } else {
    own = held.exponentials();
    return merge_block(own, slots);
  }
}

__device__ inline i64 block_index() { return blockIdx.x + (i64)blockIdx.y * gridDim.x; }

// --- fused: one block per row, the row in registers, read once -------------------------------------------------------

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const Problem given) {
  const Problem p = begin(given);
  __shared__ Pair<Wide<T>> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  Held<T, V, ITEMS, (V > 1)> held;
  held.load(row, threadIdx.x, blockDim.x);
  Pair<Wide<T>> own;
  const auto all = merge_held_by_block(held, own, slots);
  held.write(row, threadIdx.x, blockDim.x, own, all);
}

// --- persistent: a grid sized to the device; the next row is on its way while this one is worked on ------------------

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, 1) persistent(const Problem given) {
  const Problem p = begin(given);
  __shared__ Pair<Wide<T>> slots[2][32];
  Held<T, V, ITEMS, (V > 1)> held, next;
  i64 r = blockIdx.x;
  next.load(Row<T, V>(p, r), threadIdx.x, blockDim.x);  // the grid is never larger than the number of rows
  for (int turn = 0; r < p.rows; r += gridDim.x, turn ^= 1) {
    held = next;
    if (r + gridDim.x < p.rows) next.load(Row<T, V>(p, r + gridDim.x), threadIdx.x, blockDim.x);
    const auto own = held.exponentials();
    held.write(Row<T, V>(p, r), threadIdx.x, blockDim.x, own, merge_block(own, slots[turn]));
  }
}

// --- multi_row: LANES lanes per row, ROWS rows per group of lanes, all of them loaded before the first is used -------

template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row(const Problem given) {
  const Problem p = begin(given);
  constexpr int GROUPS = 128 / LANES;
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  Held<T, V, ITEMS, EDGES> held[ROWS];
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {  // for one k, neighbouring groups take neighbouring rows
    const i64 r = first + k * GROUPS;
    const bool live = r < p.rows;
    held[k].load(Row<T, V>(p, live ? r : 0), lane, LANES, live);
  }
#pragma unroll
  for (int k = 0; k < ROWS; ++k) {
    const i64 r = first + k * GROUPS;
    Pair<Wide<T>> own;
    const auto all = merge_held<LANES>(held[k], own);  // by all lanes of the warp, the row past the end included
    if (r < p.rows) held[k].write(Row<T, V>(p, r), lane, LANES, own, all);
  }
}

// --- multi_row, the tile: short contiguous rows through shared memory, one thread per row or a few -------------------
//
// Rows of a length that is no multiple of a pack start anywhere in a 16-byte word, but 128 of them in a row are one
// piece of memory: it is copied whole, 16 bytes at a time. LANES threads then take a row, in runs of 32 / LANES words,
// so that for an odd length no two lanes of a warp meet in a bank of shared memory. Half precisions are read two to a
// word, of which the row's first and last may be shared with a neighbour.
template <class T>
constexpr int TILE_ELEMENTS = 44;  // of a thread, up to which its registers let eight blocks on an SM
template <>
constexpr int TILE_ELEMENTS<float16> = 32;  // their conversions need more

template <class T, int LANES, int WORDS>
__global__ void __launch_bounds__(128, sizeof(T) <= 4 && WORDS * 4 / sizeof(T) <= TILE_ELEMENTS<T> ? 8 : 4)
    multi_row_tile(const Problem given) {
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

// --- Rows that don't fit: a running pair, then a second look ---------------------------------------------------------

// A running pair takes in a batch of packs: the sum is rescaled when the maximum grows.
template <class T, int V, int ITEMS>
__device__ inline void take_in(Pair<Wide<T>>& run, Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  const W m = larger(run.m, top_of(items));
  W v[V];
  keep_packed(items);
  const W shift = zero_if_empty(m);
  W s = run.s * exponential(run.m - shift);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - shift);
    s += sum_of(v);
  }
  keep_packed(items);
  run = {m, s};
}

// The same for packs of neighbouring rows, each with a pair of its own.
template <class T, int V, int ITEMS>
__device__ inline void take_in_columns(Wide<T> (&m)[V], Wide<T> (&s)[V], Pack<T, V> (&items)[ITEMS]) {
  using W = Wide<T>;
  W v[V], next[V];
#pragma unroll
  for (int k = 0; k < V; ++k) next[k] = m[k];
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) next[k] = larger(next[k], v[k]);
  }
  keep_packed(items);
#pragma unroll
  for (int k = 0; k < V; ++k) s[k] *= exponential(m[k] - zero_if_empty(next[k])), m[k] = next[k], next[k] = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    items[i].get(v);
#pragma unroll
    for (int k = 0; k < V; ++k) next[k] += exponential(v[k] - zero_if_empty(m[k]));
  }
#pragma unroll
  for (int k = 0; k < V; ++k) s[k] += next[k];  // a batch at a time: fewer roundings in the long sum
}

template <class T, int V>
__device__ inline void write_pack(const Row<T, V>& row, i64 j, Pack<T, V> item, Pair<Wide<T>> by) {
  Wide<T> v[V];
  item.get(v);
#pragma unroll
  for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], by);
  item.set(v);
  item.store(row.out + row.head + j * (V > 1 ? (i64)V : row.out_n), row.out_n, row.out_packed);
}

// Batches of ITEMS packs per thread from pack `from` up to `to`; a pack past the end is -inf.
template <int ITEMS, class T, int V>
__device__ inline void load_batch(Pack<T, V> (&items)[ITEMS], const Row<T, V>& row, i64 from, i64 to) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const i64 j = from + i * (int)blockDim.x;
    if (j < to) {
      items[i].load(row.x + row.head + j * (V > 1 ? (i64)V : row.x_n), row.x_n);
    } else {
      items[i].empty();
    }
  }
}

template <class T, int V>
__device__ inline void take_in_edge(Pair<Wide<T>>& run, const Row<T, V>& row, Wide<T>& edge) {
  edge = lowest<Wide<T>>();
  if constexpr (V > 1) {
    if (threadIdx.x < row.edges) edge = widen(row.x[row.edge(threadIdx.x)]);
    Pack<T, 1> one[1] = {{edge}};
    take_in<T, 1, 1>(run, one);
  }
}

template <class T, int V>
__device__ inline void write_edge(const Row<T, V>& row, Wide<T> edge, Pair<Wide<T>> by) {
  if constexpr (V > 1) {
    if (threadIdx.x < row.edges) narrow(finished<T>(edge, by), row.out[row.edge(threadIdx.x)]);
  }
}

// --- online: one block per row of any length, two passes -------------------------------------------------------------

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, sizeof(T) == 8 ? 1 : 2) online(const Problem given) {
  const Problem p = begin(given);
  using W = Wide<T>;
  __shared__ Pair<W> slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const Row<T, V> row(p, r);
  const int step = ITEMS * (int)blockDim.x;
  Pair<W> run = {lowest<W>(), 0};
  Pack<T, V> items[ITEMS];
  W edge;
  for (i64 j = threadIdx.x; j < row.packs; j += step) {
    load_batch(items, row, j, row.packs);
    take_in(run, items);
  }
  take_in_edge(run, row, edge);
  const auto all = merge_block(run, slots);
  const Pair<W> by = finisher<T>(all);
  // Backwards: what was read last is the likeliest to be in a cache still.
  const i64 last = threadIdx.x < row.packs ? (row.packs - 1 - threadIdx.x) / step * step + threadIdx.x : -1;
  for (i64 j = last; j >= 0; j -= step) {
    load_batch(items, row, j, row.packs);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 at = j + i * (int)blockDim.x;
      if (at < row.packs) write_pack(row, at, items[i], by);
    }
  }
  write_edge(row, edge, by);
}

// --- split, by a thread-block cluster: the row in the registers of CLUSTER blocks, read once -------------------------
//
// Every warp sends its pair to the shared memory of every block of the cluster, where a barrier counts the bytes: a block
// goes on when all pairs have come, and waits for no write of its own.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class W>
__device__ inline void send_pair(Pair<W>* place, u64* barrier, u32 rank, const Pair<W>& pair) {
  const u64* words = (const u64*)&pair;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(pair) / 8); ++i) send_remote((u64*)place + i, barrier, rank, words[i]);
}

template <class T, int V, int ITEMS, int CLUSTER>
__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(512, SPLIT_BLOCKS)
    split_cluster(const Problem given) {
  using W = Wide<T>;
  __shared__ alignas(16) Pair<W> slots[CLUSTER * 16];
  __shared__ u64 met;
  const i64 r = block_index() / CLUSTER;
  if (r >= given.rows) return;  // the whole cluster alike
  const int lanes = CLUSTER * blockDim.x, warps = blockDim.x / 32;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      init_barrier(&met, 1);
      fence_barriers();
    }
    __syncwarp();
    if (threadIdx.x == 0) arrive_expecting(&met, CLUSTER * warps * sizeof(Pair<W>));
    __syncwarp();
  }
  cluster_arrive();
  const Problem p = begin(given);
  const int rank = cluster_rank(), lane = rank * blockDim.x + threadIdx.x;
  const Row<T, V> row(p, r);
  Held<T, V, ITEMS, (V > 1)> held;
  held.load(row, lane, lanes);
  const auto own = held.exponentials();
  const auto warp = merge_lanes<32>(own);
  cluster_wait();  // every block of the cluster runs by now: its shared memory may be written
  const int peer = threadIdx.x & 31;
  if (peer < CLUSTER) send_pair(&slots[rank * warps + threadIdx.x / 32], &met, peer, warp);
  wait_for(&met, 0);
  held.write(row, lane, lanes, own, merge_slots(slots, CLUSTER * warps));
}

#endif

// --- split, a ring of tiles in shared memory: for few rows, each spread over many blocks -----------------------------
//
// `parts` blocks of a co-operative launch take a row each time. One warp of a block keeps bulk copies in flight, tile
// by tile, as far ahead as the ring has room; the others take a running pair of each tile that arrives, merge with the
// other blocks through tagged words in device memory, and write from the same tiles, which then are free. Of a part
// longer than the ring, the tiles that had to make room are read a second time at the end, most likely from the L2
// cache.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// The part of a row that falls to one of `parts` blocks: packs [from, from + count), in `tiles` tiles of TILE packs.
template <int TILE>
struct Part {
  i64 from;
  int count, tiles;

  __device__ Part(i64 packs, int parts, int part) {
    const i64 share = ((packs + parts - 1) / parts + 7) / 8 * 8;  // whole lines of 128 bytes
    from = part * share;
    const i64 left = packs - from;
    count = (int)(left < 0 ? 0 : left < share ? left : share);
    tiles = (count + TILE - 1) / TILE;
  }
};

// Where in the ring the next tile lies, and how often it has come round.
struct RingPlace {
  int slot = 0;
  u32 parity = 0;

  __device__ void next(int slots) {
    if (++slot == slots) slot = 0, parity ^= 1;
  }
};

template <class T, int LANES>
__global__ void __launch_bounds__(LANES + 32, 1)
    split_ring(const Problem given, u64* packets, const int parts, const int ring_tiles) {
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T), WARPS = LANES / 32, ITEMS = 2, TILE = ITEMS * LANES, MOST = 16;
  constexpr int WORDS = sizeof(Pair<W>) / 4;
  extern __shared__ Bytes16 ring[];
  __shared__ u64 full[MOST], empty[MOST];
  __shared__ alignas(16) Pair<W> slots[2][256], warp_slots[2][WARPS];
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int k = 0; k < ring_tiles; ++k) init_barrier(&full[k], 1), init_barrier(&empty[k], WARPS);
    fence_barriers();
  }
  const Problem p = begin(given);
  __syncthreads();
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, groups = gridDim.x / parts;
  RingPlace at;

  if (warp == WARPS) {  // the copies
    if (lane != 0) return;
    const u64 keep = keep_policy(), stream = stream_policy();
    at.parity = 1;  // every tile of the ring is free at first
    for (i64 r = group; r < p.rows; r += groups) {
      const Row<T, V> row(p, r);
      const Part<TILE> mine(row.packs, parts, part);
      const int over = mine.tiles > ring_tiles ? mine.tiles - ring_tiles : 0;
      const Bytes16* x = (const Bytes16*)(row.x + row.head + mine.from * V);
      for (int k = 0; k < mine.tiles + over; ++k) {
        const int tile = k < mine.tiles ? k : k - mine.tiles, left = mine.count - tile * TILE;
        const u32 bytes = (left < TILE ? left : TILE) * 16;
        wait_for(&empty[at.slot], at.parity);
        arrive_expecting(&full[at.slot], bytes);
        copy_bulk(ring + at.slot * TILE, x + (i64)tile * TILE, bytes, &full[at.slot], k < over ? keep : stream);
        at.next(ring_tiles);
      }
    }
    return;
  }

  const auto sync = [&] { asm volatile("bar.sync 1, %0;" :: "n"(LANES) : "memory"); };  // all warps but that one
  const auto take_tile = [&](Pack<T, V>(&items)[ITEMS], int slot, int left) {
    const Bytes16* tile = ring + slot * TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (i * LANES + (int)threadIdx.x < left) {
        items[i].raw = tile[i * LANES];
      } else {
        items[i].empty();
      }
    }
  };
  const auto release = [&](int slot) {
    __syncwarp();
    if (lane == 0) arrive(&empty[slot]);
  };

  u32 turn = 0;
  for (i64 r = group; r < p.rows; r += groups, turn ^= 1) {
    const Row<T, V> row(p, r);
    const Part<TILE> mine(row.packs, parts, part);
    const int over = mine.tiles > ring_tiles ? mine.tiles - ring_tiles : 0;
    u64* row_packets = packets + r * parts * WORDS;
    const u32 tag = (u32)(peek_tagged(row_packets + part * WORDS) >> 32) + 1;

    Pair<W> run = {lowest<W>(), 0};
    Pack<T, V> items[ITEMS];
    W edge = lowest<W>();
    if (part == 0) take_in_edge(run, row, edge);
    for (int k = 0; k < mine.tiles; ++k) {
      wait_for(&full[at.slot], at.parity);
      take_tile(items, at.slot, mine.count - k * TILE);
      if (k < over) release(at.slot);
      take_in(run, items);
      at.next(ring_tiles);
    }

    run = merge_lanes<32>(run);
    if (lane == 0) warp_slots[turn][warp] = run;
    sync();
    const Pair<W> block = merge_slots(warp_slots[turn], WARPS);
    if ((int)threadIdx.x < WORDS) {
      const u32* words = (const u32*)&block;
      u32 word = words[0];
#pragma unroll
      for (int k = 1; k < WORDS; ++k) word = threadIdx.x == k ? words[k] : word;
      send_tagged(row_packets + part * WORDS + threadIdx.x, tag, word);
    }
    for (int k = threadIdx.x; k < parts * WORDS; k += LANES) {
      ((u32*)slots[turn])[k] = receive_tagged(row_packets + k, tag);
    }
    sync();
    const Pair<W> all = merge_slots(slots[turn], parts);

    const Pair<W> by = finisher<T>(all);
    const auto write_tile = [&](int tile) {
      const i64 from = mine.from + (i64)tile * TILE + threadIdx.x;
      const int left = mine.count - tile * TILE;
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        if (i * LANES + (int)threadIdx.x < left) write_pack(row, from + i * LANES, items[i], by);
      }
    };
    int slot = at.slot - (mine.tiles - over);
    if (slot < 0) slot += ring_tiles;
    for (int k = over; k < mine.tiles; ++k) {
      take_tile(items, slot, mine.count - k * TILE);
      release(slot);
      write_tile(k);
      if (++slot == ring_tiles) slot = 0;
    }
    for (int k = 0; k < over; ++k) {
      wait_for(&full[at.slot], at.parity);
      take_tile(items, at.slot, mine.count - k * TILE);
      release(at.slot);
      write_tile(k);
      at.next(ring_tiles);
    }
    if (part == 0) write_edge(row, edge, by);
  }
}

#endif

// --- split, by the whole grid: blocks that run side by side (a co-operative launch) wait for each other --------------

// Block `chunk` of `chunks` has left its pairs at `mine`, by its first threads; returns once all blocks of the same
// row have. `arrived` only ever grows, by `chunks` a launch, so that it needs no reset.
__device__ inline void meet(u64* arrived, int chunks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    u64 before, now;
    asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(arrived) : "memory");
    const u64 complete = (before / chunks + 1) * chunks;
    do {
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(arrived) : "memory");
    } while (now < complete);
  }
  __syncthreads();
}

// `chunks` blocks a row. A thread holds ITEMS packs in registers and `shared_items` more in shared memory; only what
// is past those is read twice, the second time most likely from the L2 cache.
template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(512, 1)
    split_grid(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int chunks, const int shared_items) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int BATCH = sizeof(T) == 8 ? 2 : 4;  // exp() in double takes the registers of two packs
  extern __shared__ Bytes16 memory[];
  Pack<T, V>* shared = (Pack<T, V>*)memory;
  __shared__ Pair<W> slots[2][32];
  const int lanes = blockDim.x, group = blockIdx.x / chunks, chunk = blockIdx.x % chunks, groups = gridDim.x / chunks;
  int turn = 0;
  for (i64 r = group; r < p.rows; r += groups, turn ^= 1) {
    const Row<T, V> row(p, r);
    const i64 share = (row.packs + chunks - 1) / chunks, from = chunk * share + threadIdx.x;
    const i64 end = (chunk + 1) * share, to = end < row.packs ? end : row.packs;
    const i64 kept = from + (i64)ITEMS * lanes, beyond = kept + (i64)shared_items * lanes;

    Pair<W> run = {lowest<W>(), 0};
    Pack<T, V> items[ITEMS], batch[BATCH];
    load_batch(items, row, from, to);
    for (int i = 0; i < shared_items; i += BATCH) {  // a multiple of BATCH; each thread reads back what it wrote
      load_batch(batch, row, kept + (i64)i * lanes, to);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) shared[(i + k) * lanes + threadIdx.x] = batch[k];
      take_in(run, batch);
    }
    for (i64 j = beyond; j < to; j += BATCH * lanes) {
      load_batch(batch, row, j, to);
      take_in(run, batch);
    }
    take_in(run, items);
    W edge = lowest<W>();
    if (chunk == 0) take_in_edge(run, row, edge);

    const auto block = merge_block(run, slots[turn]);
    Pair<W>* row_partial = partial + r * chunks;
    if (threadIdx.x == 0) row_partial[chunk] = block;
    meet(arrived + r, chunks);
    const auto all = merge_slots(row_partial, chunks);
    const Pair<W> by = finisher<T>(all);

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * lanes;
      if (j < to) write_pack(row, j, items[i], by);
    }
    for (int i = 0; i < shared_items; ++i) {
      const i64 j = kept + (i64)i * lanes;
      if (j < to) write_pack(row, j, shared[i * lanes + threadIdx.x], by);
    }
    for (i64 j = beyond; j < to; j += BATCH * lanes) {
      load_batch(batch, row, j, to);
#pragma unroll
      for (int k = 0; k < BATCH; ++k) {
        const i64 at = j + (i64)k * lanes;
        if (at < to) write_pack(row, at, batch[k], by);
      }
    }
    if (chunk == 0) write_edge(row, edge, by);
  }
}

// --- Columns: the rows lie side by side, so lanes run along them and each thread walks down its own ------------------
//
// A block takes x_lanes * V neighbouring rows (V of them a pack) and blockDim.x / x_lanes of their elements at a time.
// The first ITEMS elements of a thread stay in registers, the others are read again. With SPLIT, `chunks` blocks share
// the reduced axis and meet, as in split_grid.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
constexpr int COLUMN_BLOCKS = 4;  // on an SM, of single elements, 64 registers a thread
#else
constexpr int COLUMN_BLOCKS = 3;  // for other devices the compiler would spill
#endif

template <class T, int V, int ITEMS, bool SPLIT>
__global__ void __launch_bounds__(V == 1 ? 256 : 512, V > 1 ? 1 : SPLIT || sizeof(T) == 8 ? 2 : COLUMN_BLOCKS)
    columns(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int chunks, const int x_lanes) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int BATCH = V == 8 ? 2 : 4;  // of eight rows a pack, each with its own pair, two fill the registers
  __shared__ Pair<W> slots[16 * 32 * (V > 1 ? V / 2 : 1)];  // warps * rows of a block: at most 16 * max(32, 16 * V)
  const int wide = x_lanes * V, tiles = (int)((p.inner + wide - 1) / wide);
  const int lane = threadIdx.x % x_lanes, depth = threadIdx.x / x_lanes, depths = blockDim.x / x_lanes;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const i64 block = block_index(), group = SPLIT ? block / chunks : block;
  const i64 groups = SPLIT ? (i64)gridDim.x / chunks : (i64)1 << 62, all_tiles = p.rows / p.inner * tiles;
  const i64 share = SPLIT ? (p.n + chunks - 1) / chunks : p.n, begin = SPLIT ? block % chunks * share : 0;
  const i64 end = begin + share < p.n ? begin + share : p.n;

  for (i64 g = group; g < all_tiles; g += groups) {
    const i64 outer = g / tiles, inner = (g - outer * tiles) * wide + lane * V;
    const bool live = inner < p.inner;
    const T* x = (const T*)p.x + outer * p.x_outer + inner * p.x_inner;
    T* out = (T*)p.out + outer * p.out_outer + inner * p.out_inner;
    const i64 from = live ? begin + depth : end, beyond = from + (i64)ITEMS * depths;

    W m[V], s[V], v[V];
    Pack<T, V> items[ITEMS], batch[BATCH];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * depths;
      if (j < end) {
        items[i].load(x + j * p.x_n, 0);
      } else {
        items[i].empty();
      }
    }
#pragma unroll
    for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) m[k] = larger(m[k], v[k]);
    }
    keep_packed(items);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      items[i].get(v);
#pragma unroll
      for (int k = 0; k < V; ++k) s[k] += exponential(v[k] - zero_if_empty(m[k]));
    }
    keep_packed(items);
    for (i64 j = beyond; j < end; j += BATCH * depths) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].load(x + (j + (i64)i * depths) * p.x_n, 0);
        } else {
          batch[i].empty();
        }
      }
      take_in_columns(m, s, batch);
    }

    // Across the lanes of a warp that share a row, across the warps, and across the blocks.
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const W own = m[k];
      for (int mask = 16; mask >= x_lanes; mask /= 2) m[k] = larger(m[k], exchange(m[k], mask));
      s[k] *= exponential(own - zero_if_empty(m[k]));
      for (int mask = 16; mask >= x_lanes; mask /= 2) s[k] += exchange(s[k], mask);
      if ((threadIdx.x & 31) < x_lanes) slots[warp * wide + lane * V + k] = {m[k], s[k]};
    }
    __syncthreads();
    const Pair<W>* pairs = slots + threadIdx.x;
    int count = warps;
    Pair<W> all = {lowest<W>(), 0};
#pragma unroll
    for (int round = 0; round <= SPLIT; ++round) {
      if (threadIdx.x < wide) {
        W top = lowest<W>(), sum = 0;
        for (int k = 0; k < count; ++k) top = larger(top, pairs[(i64)k * wide].m);
        for (int k = 0; k < count; ++k) {
          sum += pairs[(i64)k * wide].s * exponential(pairs[(i64)k * wide].m - zero_if_empty(top));
        }
        all = {top, sum};
      }
      if (SPLIT && round == 0) {
        Pair<W>* tile_partial = partial + g * chunks * wide;
        if (threadIdx.x < wide) tile_partial[block % chunks * wide + threadIdx.x] = all;
        meet(arrived + g, chunks);
        pairs = tile_partial + threadIdx.x;
        count = chunks;
      }
    }
    __syncthreads();
    if (threadIdx.x < wide) slots[threadIdx.x] = {zero_if_empty(all.m), W(1) / all.s};
    __syncthreads();
#pragma unroll
    for (int k = 0; k < V; ++k) {
      m[k] = slots[lane * V + k].m;  // the shift
      s[k] = slots[lane * V + k].s;  // the scale
    }

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const i64 j = from + (i64)i * depths;
      if (j < end) {
        items[i].get(v);
#pragma unroll
        for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - m[k]) * s[k];
        items[i].set(v);
        items[i].store(out + j * p.out_n, 0, true);
      }
    }
    for (i64 j = beyond; j < end; j += BATCH * depths) {
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].load(x + (j + (i64)i * depths) * p.x_n, 0);
        } else {
          batch[i].empty();
        }
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (j + (i64)i * depths < end) {
          batch[i].get(v);
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = exponential(v[k] - m[k]) * s[k];
          batch[i].set(v);
          batch[i].store(out + (j + (i64)i * depths) * p.out_n, 0, true);
        }
      }
    }
    __syncthreads();  // the slots are free for the next tile
  }
}

// --- Columns as one piece of memory: few rows side by side, whatever boundaries they keep to -------------------------
//
// `active` threads go round the rows together: that many packs hold each row equally often, so that place k of a
// thread's packs, which are that far apart, is always of the same row. A block takes consecutive rounds, and holds the
// first `held` packs of each thread in shared memory; the others are read again, the last one first, which is the
// likeliest to be in the L2 cache still.
template <class T, int ITEMS>
__global__ void __launch_bounds__(512, 1)
    columns_flat(const Problem given, Pair<Wide<T>>* partial, u64* arrived, const int held, const int active) {
  const Problem p = begin(given);
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T);
  extern __shared__ Bytes16 memory[];
  __shared__ Pair<W> slots[512];
  const int rows = (int)p.inner, groups = rows < 512 ? 512 / rows : 1;  // of threads, that merge a row's pairs
  const i64 total = p.n * rows, packs = total / V, rounds = (packs + active - 1) / active;
  const i64 share = (rounds + gridDim.x - 1) / gridDim.x, from = blockIdx.x * share * active + threadIdx.x;
  const i64 end = (blockIdx.x + 1) * share * active, to = end < packs ? end : packs;
  const int count = threadIdx.x < active && from < to ? (int)((to - from + active - 1) / active) : 0;
  const int kept = count < held ? count : held;
  const T* x = (const T*)p.x;
  T* out = (T*)p.out;
  Bytes16* mine = memory + threadIdx.x;
  Pair<W>* places = (Pair<W>*)(memory + held * 512);
  const auto element = [&](int k) { return (from + (i64)k * active) * V; };
  for (int k = 0; k < kept; ++k) copy_async(mine + k * 512, x + element(k));

  W m[V], s[V], v[V];
  Pack<T, V> items[ITEMS], next[ITEMS];
#pragma unroll
  for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
  const auto load = [&](Pack<T, V>(&into)[ITEMS], int first) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (first + i < count) {
        into[i].load(x + element(first + i), 0);
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

  // Thread `i` merges every groups-th of the places of a row.
  if (threadIdx.x < active) {
#pragma unroll
    for (int k = 0; k < V; ++k) places[threadIdx.x * V + k] = {m[k], s[k]};
  }
  __syncthreads();
  Pair<W> all;
  for (int i = threadIdx.x; i < groups * rows; i += 512) {
    const int row = i % rows;
    all = {lowest<W>(), 0};
    for (int k = i; k < active * V; k += groups * rows) all = merge(all, places[k]);
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
    const Pair<W> by = places[(threadIdx.x * V + k) % rows];
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
      if (first + i < stop) items[i].store(out + element(first + i), 0, true);
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

// --- Columns, by a pipeline ------------------------------------------------------------------------------------------
//
// `parts` blocks of a co-operative launch take a strip, 128 bytes of neighbouring rows, and as many strips at a time as
// there are blocks for. Each warp has a piece of every strip that its block takes, and tiles of shared memory of its own,
// four elements of each row, which it keeps filled by copies of its own lanes. It takes a running pair of each tile that
// arrives, and writes from the same tiles once the rows' pairs are known; until then it goes on with the strips that
// follow. So reading one strip, the exchange of pairs for another and writing a third go on at once, and no warp waits for
// another of its block. More warps serve the exchange: one merges and sends the block's pairs, the others receive those of
// the other blocks, as tagged words in device memory.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class T, int WARPS, int ITEMS>
__global__ void __launch_bounds__(WARPS * 32 + 32 + 128 / sizeof(T), 1)
    columns_pipeline(const Problem given, u64* packets, const int parts, const int share, const int slots) {
  using W = Wide<T>;
  constexpr int V = 16 / sizeof(T), WIDE = 8 * V, WORDS = sizeof(Pair<W>) / 4, TILE = ITEMS * 4;
  constexpr int MOST = 448 / (WARPS * ITEMS);
  constexpr int FLIGHT = 3;        // tiles of a warp on their way: behind more of them the packets would wait in line
  constexpr int DEPTH = 3;         // strips taken in and not yet written
  constexpr int USES = 2 * DEPTH;  // places for packets: before one is written again, all blocks have read it
  constexpr int RECEIVERS = WIDE / 32, AT_ONCE = 12;  // warps; parts that a lane asks for at once
  extern __shared__ Bytes16 memory[];
  __shared__ u64 full[WARPS][MOST], taken[DEPTH], known[DEPTH];
  __shared__ alignas(16) Pair<W> own_pairs[DEPTH][WARPS][WIDE], finishers[DEPTH][WIDE];
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  if (threadIdx.x < DEPTH) {
    init_barrier(&taken[threadIdx.x], WARPS);
    init_barrier(&known[threadIdx.x], parts > 1 ? RECEIVERS : 1);
  }
  if (warp < WARPS && lane < slots) init_barrier(&full[warp][lane], 32);
  fence_barriers();
  const Problem p = begin(given);
  __syncthreads();
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, groups = gridDim.x / parts;
  const int strips = (int)((p.inner + WIDE - 1) / WIDE);
  const i64 all_strips = p.rows / p.inner * strips;

  if (warp >= WARPS) {
    const bool sends = warp == WARPS;
    if (!sends && parts == 1) return;
    u32 first_tag = 0;
    if (parts > 1) {
      packets += (i64)group * USES * parts * WIDE * WORDS;
      first_tag = (u32)(peek_tagged(packets + part * WIDE * WORDS) >> 32) + 1;
      asm volatile("bar.sync 1, %0;" :: "n"(32 + RECEIVERS * 32) : "memory");
    }
    int turn = 0;
    for (i64 g = group; g < all_strips; g += groups, ++turn) {
      const int at = turn % DEPTH;
      u64* strip_packets = packets + turn % USES * parts * WIDE * WORDS;
      const u32 tag = first_tag + turn / USES;
      wait_for(&taken[at], turn / DEPTH & 1);
      if (sends) {
        for (int column = lane; column < WIDE; column += 32) {
          Pair<W> all = {lowest<W>(), 0};
#pragma unroll
          for (int k = 0; k < WARPS; ++k) all.m = larger(all.m, own_pairs[at][k][column].m);
          const W shift = zero_if_empty(all.m);
#pragma unroll
          for (int k = 0; k < WARPS; ++k) {
            const Pair<W> one = own_pairs[at][k][column];
            all.s += one.s * exponential(one.m - shift);
          }
          if (parts == 1) {
            finishers[at][column] = finisher<T>(all);
          } else {
            const u32* words = (const u32*)&all;
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
              send_tagged(strip_packets + (part * WORDS + k) * WIDE + column, tag, words[k]);
            }
          }
        }
        __syncwarp();
        if (lane == 0 && parts == 1) arrive(&known[at]);
        continue;
      }
      const int column = (warp - WARPS - 1) * 32 + lane;
      if (column < WIDE) {
        Pair<W> all = {lowest<W>(), 0};
        for (int first = 0; first < parts; first += AT_ONCE) {
          u64 got[AT_ONCE][WORDS];
          bool any = true;
          while (any) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
#pragma unroll
              for (int k = 0; k < WORDS; ++k) {
                const u64* word = strip_packets + ((first + i) * WORDS + k) * WIDE + column;
                if (first + i < parts) got[i][k] = peek_tagged(word);
              }
            }
            any = false;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
#pragma unroll
              for (int k = 0; k < WORDS; ++k) any |= first + i < parts && (u32)(got[i][k] >> 32) != tag;
            }
          }
          Pair<W> theirs[AT_ONCE], here = {lowest<W>(), 0};
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) {
            theirs[i] = {lowest<W>(), 0};
            u32* words = (u32*)&theirs[i];
#pragma unroll
            for (int k = 0; k < WORDS; ++k) {
              if (first + i < parts) words[k] = (u32)got[i][k];
            }
            here.m = larger(here.m, theirs[i].m);
          }
          const W shift = zero_if_empty(here.m);
#pragma unroll
          for (int i = 0; i < AT_ONCE; ++i) here.s += theirs[i].s * exponential(theirs[i].m - shift);
          all = merge(all, here);
        }
        finishers[at][column] = finisher<T>(all);
      }
      __syncwarp();
      if (lane == 0) arrive(&known[at]);
    }
    return;
  }

  const int x_lane = lane % 8, depth = lane / 8, piece = part * WARPS + warp;
  Bytes16* ring = memory + warp * slots * (ITEMS * 32) + lane;
  u64* arrived = full[warp];
  const i64 from = (i64)piece * share, left = p.n - from;
  const int count = left < 0 ? 0 : left < share ? (int)left : share, tiles = (count + TILE - 1) / TILE;

  u32 room = (1u << slots) - 1;
  RingPlace load_at, take_at, write_at;
  i64 loading = group, taking = group, writing = group;
  int load_tile = 0, take_tile = 0, write_tile = 0, take_turn = 0, write_turn = 0, in_flight = 0;
  W m[V], s[V], v[V];
#pragma unroll
  for (int k = 0; k < V; ++k) m[k] = lowest<W>(), s[k] = 0;
  bool may_write = false;
  Pack<T, V> items[ITEMS];
  // Where this lane's first element of strip g lies; whether it has one.
  const T* x = nullptr;
  T* out = nullptr;
  bool reads = false, writes = false;
  const auto strip = [&](i64 g, i64& outer, i64& inner) {
    outer = g / strips;
    inner = (g - outer * strips) * WIDE + x_lane * V;
    return inner < p.inner;
  };
  const auto load_strip = [&] {
    i64 outer, inner;
    reads = strip(loading, outer, inner);
    x = (const T*)p.x + outer * p.x_outer + inner + (from + depth) * p.x_n;
  };
  const auto write_strip = [&] {
    i64 outer, inner;
    writes = strip(writing, outer, inner);
    out = (T*)p.out + outer * p.out_outer + inner + (from + depth) * p.out_n;
  };
  const auto get_tile = [&](int slot, int here) {
    const Bytes16* tile = ring + slot * (ITEMS * 32);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      if (i * 4 + depth < here) {
        items[i].raw = tile[i * 32];
      } else {
        items[i].empty();
      }
    }
  };
  load_strip();
  write_strip();

  while (writing < all_strips) {
    while (loading < all_strips && (room >> load_at.slot & 1) && in_flight < FLIGHT) {
      if (load_tile < tiles) {
        const int here = count - load_tile * TILE;
        room ^= 1u << load_at.slot;
        ++in_flight;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          if (reads && i * 4 + depth < here) {
            copy_async(ring + (load_at.slot * ITEMS + i) * 32, x + (i64)(load_tile * TILE + i * 4) * p.x_n);
          }
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                     :: "r"(shared_address(&arrived[load_at.slot])) : "memory");
        load_at.next(slots);
        ++load_tile;
      } else {
        loading += groups;
        load_tile = 0;
        if (loading < all_strips) load_strip();
      }
    }

    if (taking < all_strips && take_turn - write_turn < DEPTH) {
      if (take_tile < tiles && passed(&arrived[take_at.slot], take_at.parity)) {
        get_tile(take_at.slot, count - take_tile * TILE);
        take_in_columns(m, s, items);
        take_at.next(slots);
        ++take_tile;
        --in_flight;
      }
      if (take_tile == tiles) {
        const int at = take_turn % DEPTH;
#pragma unroll
        for (int k = 0; k < V; ++k) {
          const W own = m[k];
#pragma unroll
          for (int mask = 16; mask >= 8; mask /= 2) m[k] = larger(m[k], exchange(m[k], mask));
          s[k] *= exponential(own - zero_if_empty(m[k]));
#pragma unroll
          for (int mask = 16; mask >= 8; mask /= 2) s[k] += exchange(s[k], mask);
          if (depth == 0) own_pairs[at][warp][x_lane * V + k] = {m[k], s[k]};
          m[k] = lowest<W>();
          s[k] = 0;
        }
        __syncwarp();
        if (lane == 0) arrive(&taken[at]);
        taking += groups;
        ++take_turn;
        take_tile = 0;
      }
    }

    if (!may_write && write_turn < take_turn) may_write = passed(&known[write_turn % DEPTH], write_turn / DEPTH & 1);
    if (may_write) {
      if (write_tile < tiles) {
        const int here = count - write_tile * TILE;
        get_tile(write_at.slot, here);
        const Pair<W>* by = &finishers[write_turn % DEPTH][x_lane * V];
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          items[i].get(v);
#pragma unroll
          for (int k = 0; k < V; ++k) v[k] = finished<T>(v[k], by[k]);
          items[i].set(v);
#pragma unroll
          for (int k = 0; k < 4; ++k) asm volatile("" : "+r"(items[i].raw.word[k]));  // not sunk into the branch below
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
          if (writes && i * 4 + depth < here) store_once(out + (i64)(write_tile * TILE + i * 4) * p.out_n, items[i].raw);
        }
        room |= 1u << write_at.slot;
        write_at.next(slots);
        ++write_tile;
      }
      if (write_tile == tiles) {
        __syncwarp();  // all lanes have read their finishers
        writing += groups;
        ++write_turn;
        write_tile = 0;
        may_write = false;
        if (writing < all_strips) write_strip();
      }
    }
  }
}

#endif

// --- Columns, by a thread-block cluster: every element in shared memory, read once -----------------------------------
//
// A block takes some neighbouring rows and its part of their elements, all of them on their way to shared memory at
// once. An SM has several blocks, so that some read while others compute or write. Pairs of a row meet within the warp,
// within the block, and through distributed shared memory within the cluster.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

constexpr int CLUSTER_BLOCKS = COLUMN_BLOCKS == 4 ? 2 : 1;  // of the most threads, on an SM

// The pairs of a block's `wide` neighbouring rows, in shared memory: those of each of its `groups` of threads, those of
// each block of the cluster, and what finishes the rows.
template <class T>
struct Meeting {
  Pair<Wide<T>>*slots, *peers, *finishers;
  u64* met;
  int groups, wide;

  // `met` counts the bytes that all blocks of the cluster will send here. cluster_arrive() and, in finish(),
  // cluster_wait() put its making, in every block, before the first of them; loads may be issued between the two. One
  // thread makes it and arrives at it: compute-sanitizer takes that for a race unless a warp's barrier stands between.
  __device__ Meeting(void* at, u64* met, int groups, int wide)
      : slots((Pair<Wide<T>>*)at), peers(slots + groups * wide), finishers(peers + cluster_size() * wide), met(met),
        groups(groups), wide(wide) {
    if (cluster_size() > 1) {
      if (threadIdx.x == 0) {
        init_barrier(met, 1);
        fence_barriers();
      }
      __syncwarp();
      if (threadIdx.x == 0) arrive_expecting(met, cluster_size() * wide * sizeof(Pair<Wide<T>>));
    }
    cluster_arrive();
  }

  // From the slots, which the block's threads have written, to the finishers, which all of them may then read. Every
  // place is written once a launch, so that no one has to wait before writing; and no block ends before all that is
  // sent to it has come, since its threads pass the last barrier behind those that waited for it.
  __device__ void finish() {
    const int parts = cluster_size(), part = cluster_rank();
    __syncthreads();
    cluster_wait();
    if (parts > 1) {
      for (int k = threadIdx.x; k < parts * wide; k += blockDim.x) {  // a row of a block, to one of them
        const int row = k % wide;
        const Pair<Wide<T>> all = merged(slots + row, groups);
        send_pair(&peers[part * wide + row], met, k / wide, all);
      }
    }
    for (int row = threadIdx.x; row < wide; row += blockDim.x) {
      if (parts > 1) wait_for(met, 0);
      finishers[row] = finisher<T>(parts > 1 ? merged(peers + row, parts) : merged(slots + row, groups));
    }
    __syncthreads();
  }

  __device__ Pair<Wide<T>> merged(const Pair<Wide<T>>* pairs, int count) const {
    Wide<T> top = lowest<Wide<T>>(), sum = 0;
    for (int k = 0; k < count; ++k) top = larger(top, pairs[k * wide].m);
    const Wide<T> shift = zero_if_empty(top);
    for (int k = 0; k < count; ++k) sum += pairs[k * wide].s * exponential(pairs[k * wide].m - shift);
    return {top, sum};
  }
};

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
    item.store(out, 0, true);
  }
}

// --- Columns at odd widths, by a cluster -----------------------------------------------------------------------------
//
// As columns_cluster, for rows that begin anywhere in a 16-byte word: a block takes 32 neighbouring rows, a lane each.
// Their elements of one place in the row are a piece of memory; the words that it lies in are copied whole, so that
// half precisions too go without a register between. A warp has consecutive places, `items` of them, and reads only
// what its own lanes have copied.
constexpr int RAGGED_BLOCKS = COLUMN_BLOCKS == 4 ? 3 : 1;  // of the most threads, on an SM

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

  // A word is read if a row of this tile lies in it; of the last one of all, what belongs to x.
  const auto load = [&](int place, int pack) {
    const u64 at = x + place * stride, word = (at & ~(u64)15) + pack * 16;
    if (word < at + live * sizeof(T)) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                   :: "r"(shared_address(mine + place * PITCH + pack * 16)), "l"(word),
                      "r"(x_end - word < 16 ? (u32)(x_end - word) : 16) : "memory");
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

#endif
