// Minima of words, computed on their bits, over lanes, blocks and batches.
//
// A word of 32 or 64 bits has as many elements as fit; minimum() compares all of them at once. NaN always wins, as in
// torch. With fminf and the hardware's atomics it would not.
#pragma once
#include "../vector_io.cuh"

template <class T> struct WordOf { using type = u32; };
template <> struct WordOf<double> { using type = u64; };
template <> struct WordOf<i64> { using type = u64; };
template <class T> using Word = typename WordOf<T>::type;

// In PTX instead of a < b, because cupy compiles with -ftz=true, which would flush subnormal numbers to zero.
__device__ inline u32 minimum(u32 a, u32 b, float) {
  asm("{.reg .f32 x, y; mov.b32 x, %0; mov.b32 y, %1; min.NaN.f32 x, x, y; mov.b32 %0, x;}" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u32 minimum(u32 a, u32 b, float16) { asm("min.NaN.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b)); return a; }
__device__ inline u32 minimum(u32 a, u32 b, bfloat16) {
  asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
  return a;
}
__device__ inline u64 minimum(u64 a, u64 b, double) {
  const double x = __longlong_as_double(a), y = __longlong_as_double(b);
  return x != x || x < y ? a : b;  // if y is NaN, the result is y
}
__device__ inline u32 minimum(u32 a, u32 b, u8) { return __vminu4(a, b); }
__device__ inline u32 minimum(u32 a, u32 b, signed char) { return __vmins4(a, b); }
__device__ inline u32 minimum(u32 a, u32 b, short) { return __vmins2(a, b); }
__device__ inline u32 minimum(u32 a, u32 b, int) { return (int)a < (int)b ? a : b; }
__device__ inline u64 minimum(u64 a, u64 b, i64) { return (i64)a < (i64)b ? a : b; }

// +inf, or an integer dtype's largest number.
__device__ constexpr u32 identity(float) { return 0x7f800000u; }
__device__ constexpr u32 identity(float16) { return 0x7c007c00u; }
__device__ constexpr u32 identity(bfloat16) { return 0x7f807f80u; }
__device__ constexpr u64 identity(double) { return 0x7ff0000000000000ull; }
__device__ constexpr u32 identity(u8) { return 0xffffffffu; }
__device__ constexpr u32 identity(signed char) { return 0x7f7f7f7fu; }
__device__ constexpr u32 identity(short) { return 0x7fff7fffu; }
__device__ constexpr u32 identity(int) { return 0x7fffffffu; }
__device__ constexpr u64 identity(i64) { return 0x7fffffffffffffffull; }

template <class T> __device__ inline Word<T> identity_word() { return identity(T{}); }

// Copy one element to every position of a word. fold() does the reverse: the lowest position gets the minimum of all.
template <class T>
__device__ inline Word<T> broadcast(const T* x) {
  return *(const Bits<T>*)x * Word<T>(sizeof(T) == 1 ? 0x01010101u : sizeof(T) == 2 ? 0x00010001u : 1u);
}
template <class T>
__device__ inline Word<T> fold(Word<T> w) {
  if constexpr (sizeof(T) <= 2) w = minimum(w, w >> 16 | w << 16, T{});
  if constexpr (sizeof(T) == 1) w = minimum(w, w >> 8 | w << 24, T{});
  return w;
}
template <class T> __device__ inline void store_minimum(T* out, Word<T> w) { *(Bits<T>*)out = (Bits<T>)fold<T>(w); }

template <class T>
__device__ inline Word<T> min_of_pack(const Bytes16& v) {
  Word<T> w[2] = {element<Word<T>>(v, 0), element<Word<T>>(v, 1)};
  if constexpr (sizeof(T) < 8) w[0] = minimum(w[0], w[1], T{}), w[1] = minimum(v.word[2], v.word[3], T{});
  return minimum(w[0], w[1], T{});
}
template <class T>
__device__ inline Bytes16 identity_pack() {
  const u32 low = identity_word<T>(), high = sizeof(T) == 8 ? (u64)identity_word<T>() >> 32 : low;
  return {{low, high, low, high}};
}

template <class T, int LANES>
__device__ inline Word<T> warp_min(Word<T> w) {
  UNROLL for (int mask = LANES / 2; mask > 0; mask /= 2) w = minimum(w, shuffle_xor(w, mask), T{});
  return w;
}

// The minimum over the block, in every thread. `slots` has 32 words, and may be written again after the next barrier.
template <class T>
__device__ inline Word<T> block_min(Word<T> w, Word<T>* slots) {
  const int lane = threadIdx.x & 31;
  w = warp_min<T, 32>(w);
  if (lane == 0) slots[threadIdx.x / 32] = w;
  __syncthreads();
  return warp_min<T, 32>(lane < blockDim.x / 32 ? slots[lane] : identity_word<T>());
}

// The minimum of ITEMS packs from pack `from` on, `step` apart and below `to`. All are loaded before the first
// comparison. If fewer remain, the last one is read again: the minimum is the same, and no load needs a predicate.
template <int ITEMS, class T, int V>
__device__ inline Word<T> min_of_batch(const Row<T, V>& row, i64 from, i64 to, int step) {
  if (from >= to) return identity_word<T>();
  Word<T> w[ITEMS];
  Bytes16 raw[ITEMS];
  UNROLL for (int i = 0; i < ITEMS; ++i) {
    const i64 j = from + i * step, at = j < to ? j : to - 1;
    if constexpr (V > 1) raw[i] = load_once(row.x_pack(at));
    if constexpr (V == 1) w[i] = broadcast(row.x_pack(at));
  }
  if constexpr (V > 1) UNROLL for (int i = 0; i < ITEMS; ++i) w[i] = min_of_pack<T>(raw[i]);
  UNROLL for (int half = ITEMS / 2; half > 0; half /= 2) {
    UNROLL for (int i = 0; i < half; ++i) w[i] = minimum(w[i], w[i + half], T{});
  }
  return w[0];
}

// The minimum of a row's edge elements `lane`, `lane + lanes`, ...
template <class T, int V>
__device__ inline Word<T> min_of_edges(const Row<T, V>& row, int lane, int lanes) {
  Word<T> w = identity_word<T>();
  if constexpr (V > 1) {
    for (int e = lane; e < row.edges; e += lanes) w = minimum(w, broadcast(row.x + row.edge(e)), T{});
  }
  return w;
}
