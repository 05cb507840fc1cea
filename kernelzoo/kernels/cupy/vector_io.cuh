// Rows in device memory, read and written 16 bytes at a time. Two elements of half precision share a register.
#pragma once
#include "device_functions.cuh"

// --- 16 bytes --------------------------------------------------------------------------------------------------------

struct alignas(16) Bytes16 { u32 word[4]; };

// Load data that is read once, bypassing L1, or return v. A predicate, unlike a branch, lets several loads be in
// flight. The load is not read-only (ld.global.nc), because the launch that writes the input may still run.
__device__ inline Bytes16 load_once_if(bool wanted, const void* p, Bytes16 v) {
  asm("{.reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
      " @wanted ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3]) : "l"(p), "r"((u32)wanted));
  return v;
}
__device__ inline Bytes16 load_once(const void* p) { return load_once_if(true, p, {}); }

// Load data that was written by this launch, or that this SM soon reads again.
__device__ inline Bytes16 load_if(bool wanted, const void* p, Bytes16 v) {
  asm volatile("{.reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
               " @wanted ld.global.v4.u32 {%0, %1, %2, %3}, [%4];}"
               : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3])
               : "l"(p), "r"((u32)wanted) : "memory");
  return v;
}

// Load data that is read once, in a kernel that writes as much. L2 evicts results earlier, and so writes them steadily.
__device__ inline Bytes16 load_kept_if(bool wanted, const void* p, Bytes16 v) {
  asm("{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
      " .reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
      " @wanted ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3]) : "l"(p), "r"((u32)wanted));
  return v;
}
__device__ inline Bytes16 load_kept(const void* p) { return load_kept_if(true, p, {}); }

// Store with the caches' default policy. The compiler would spill if this were a plain assignment.
__device__ inline void store_plain(void* p, const Bytes16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}

// Store data that the caches should evict first, because other data is read again.
__device__ inline void store_once(void* p, const Bytes16& v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}

__device__ inline u32 misalignment(const void* p) { return (u32)(u64)p & 15u; }

// Copy 16 bytes to shared memory, bypassing registers and the L1 cache.
__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ inline void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void wait_async() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// --- The dtype of arithmetic: float for half precisions, else the dtype itself ---------------------------------------

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

// In PTX, because cupy compiles C++ with -ftz=true, which would flush subnormal numbers to zero.
__device__ inline float product(float a, float b) { asm("mul.rn.f32 %0, %0, %1;" : "+f"(a) : "f"(b)); return a; }
__device__ inline double product(double a, double b) { return a * b; }
__device__ inline float difference(float a, float b) { asm("sub.rn.f32 %0, %0, %1;" : "+f"(a) : "f"(b)); return a; }
__device__ inline double difference(double a, double b) { return a - b; }

__device__ inline u32 pack_halves(float low, float high, float16) {
  u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline u32 pack_halves(float low, float high, bfloat16) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

template <class W> __device__ inline W minus_infinity() { return -__int_as_float(0x7f800000); }

// --- Packs -----------------------------------------------------------------------------------------------------------

template <class T> constexpr u32 MINUS_INFINITY = 0xfc00u;  // in half precision
template <> constexpr u32 MINUS_INFINITY<bfloat16> = 0xff80u;

// Element k of a 16-byte vector.
template <int BYTES> struct BitsOf { using type = u64; };
template <> struct BitsOf<1> { using type = u8; };
template <> struct BitsOf<2> { using type = u16; };
template <> struct BitsOf<4> { using type = u32; };
template <class T> using Bits = typename BitsOf<sizeof(T)>::type;
template <class T>
__device__ inline T element(const Bytes16& raw, int k) {
  constexpr int EACH = sizeof(T) < 4 ? 4 / sizeof(T) : 1;  // elements per word
  Bits<T> bits = (Bits<T>)(raw.word[k / EACH] >> k % EACH * 8 * sizeof(T) % 32);
  if constexpr (sizeof(T) == 8) bits = (u64)raw.word[2 * k + 1] << 32 | raw.word[2 * k];
  return *(const T*)&bits;
}

template <class T, int V>
struct Pack {
  static_assert(V * sizeof(T) == 16, "a pack is 16 bytes");
  Bytes16 raw;

  __device__ void empty() {
    constexpr bool HALF = sizeof(T) == 2;
    constexpr u32 odd = sizeof(T) == 8 ? 0xfff00000u : HALF ? MINUS_INFINITY<T> * 0x10001u : 0xff800000u;
    constexpr u32 even = sizeof(T) == 8 ? 0u : odd;
    raw = Bytes16{{even, odd, even, odd}};
  }
  // KEPT: use load_kept and store_plain.
  template <bool KEPT = false> __device__ void load(const T* x) { raw = KEPT ? load_kept(x) : load_once(x); }
  __device__ T element(int k) const { return ::element<T>(raw, k); }
  __device__ void get(Wide<T> (&v)[V]) const {
    UNROLL for (int k = 0; k < V; ++k) v[k] = widen(element(k));
  }
  __device__ void set(const Wide<T> (&v)[V]) {
    if constexpr (sizeof(T) == 2) {
      UNROLL for (int k = 0; k < 4; ++k) raw.word[k] = pack_halves(v[2 * k], v[2 * k + 1], T{});
    } else if constexpr (sizeof(T) == 4) {
      UNROLL for (int k = 0; k < 4; ++k) raw.word[k] = __float_as_uint(v[k]);
    } else {
      UNROLL for (int k = 0; k < 2; ++k) {
        raw.word[2 * k] = __double2loint(v[k]), raw.word[2 * k + 1] = __double2hiint(v[k]);
      }
    }
  }
  template <bool KEPT = false> __device__ void store(T* out, bool packed) const {
    if (packed) {
      KEPT ? store_plain(out, raw) : store_once(out, raw);
      return;
    }
    // The output is not aligned here: its row starts elsewhere in a 16-byte vector than the input's.
    UNROLL for (int k = 0; k < V; ++k) out[k] = element(k);
  }
};

template <class T>
struct Pack<T, 1> {
  Wide<T> value;

  __device__ void empty() { value = minus_infinity<Wide<T>>(); }
  template <bool KEPT = false> __device__ void load(const T* x) { value = widen(*x); }
  __device__ void get(Wide<T> (&v)[1]) const { v[0] = value; }
  __device__ void set(const Wide<T> (&v)[1]) { value = v[0]; }
  template <bool KEPT = false> __device__ void store(T* out, bool) const { narrow(value, *out); }
};

// Make the compiler pass half precisions from one loop to the next as packed pairs. It would otherwise keep widened
// values, and spill.
template <class T, int V, int ITEMS>
__device__ inline void keep_packed(Pack<T, V> (&items)[ITEMS]) {
  if constexpr (V == 8) {
    UNROLL for (int k = 0; k < 4 * ITEMS; ++k) asm volatile("" : "+r"(items[k / 4].raw.word[k % 4]));
  }
}

// The sum of a pack's elements, added pairwise.
template <class W, int V>
__device__ inline W sum_of(const W (&v)[V]) {
  W t[V];
  UNROLL for (int k = 0; k < V; ++k) t[k] = v[k];
  UNROLL for (int half = V / 2; half > 0; half /= 2) {
    UNROLL for (int k = 0; k < V / 2; ++k) if (k < half) t[k] += t[k + half];
  }
  return t[0];
}

// --- A row, as packs between two unaligned edges ---------------------------------------------------------------------
//
// If V > 1, packs of V elements begin at the first 16-byte boundary of the row. The elements before and after them are
// its edges, at most 2 * (V - 1), and are read one by one. If V == 1, a pack is an element, at any stride.
template <class T, int V>
struct Row {
  const T* x;
  T* out;
  i64 outer, inner;
  i64 packs;       // complete packs
  i64 x_n, out_n;  // used if V == 1
  int head = 0, edges = 0;
  bool out_packed = true;  // whether the output's packs are aligned too

  template <class P>
  __device__ Row(const P& p, i64 r) : packs(p.n), x_n(p.x_n), out_n(p.out_n) {
    row_coords(p, r, outer, inner);
    const i64 x_offset = outer * p.x_outer + inner * p.x_inner, out_offset = outer * p.out_outer + inner * p.out_inner;
    x = (const T*)p.x + x_offset, out = (T*)p.out + out_offset;
    if constexpr (V > 1) {
      int before = (int)(((16 - misalignment(x)) & 15) / sizeof(T));
      head = before < p.n ? before : (int)p.n;
      packs = (p.n - head) / V;
      edges = (int)(p.n - packs * V);
      out_packed = misalignment(out + head) == 0;
    }
  }

  // The address of pack j.
  __device__ const T* x_pack(i64 j) const { return x + head + j * (V > 1 ? (i64)V : x_n); }
  __device__ T* out_pack(i64 j) const { return out + head + j * (V > 1 ? (i64)V : out_n); }

  // The index in the row of edge element e, 0 <= e < edges.
  __device__ i64 edge(int e) const { return e < head ? e : e + packs * V; }
};
