// What both operations share: dtypes, 16-byte packs, rows with their edges peeled, and reductions across lanes.
//
// No header of CUDA is included, so that NVRTC needs no toolkit on the machine: half precisions are 16 bits here, and
// PTX widens and narrows them. Needs compute capability 8.0.
#ifndef KERNELZOO_ROW_CUH
#define KERNELZOO_ROW_CUH

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct float16 { u16 bits; };
struct bfloat16 { u16 bits; };

// The canonical problem: x (outer, n, inner), out likewise (the minimum has no out_n). Strides count elements.
struct Problem {
  const void* x;
  void* out;
  i64 rows, n, inner;
  i64 x_outer, x_n, x_inner;
  i64 out_outer, out_n, out_inner;
  double inner_inverse;  // 1 / inner
};

// Row r is (r / inner, r % inner).
__device__ inline void place(const Problem& p, i64 r, i64& x_offset, i64& out_offset) {
  i64 outer = r, inner = 0;
  if (p.inner != 1) {  // a 64-bit division is a hundred instructions; this one is exact up to 2^52 rows
    outer = (i64)((double)r * p.inner_inverse);
    inner = r - outer * p.inner;
    if (inner < 0) outer -= 1, inner += p.inner;
    if (inner >= p.inner) outer += 1, inner -= p.inner;
  }
  x_offset = outer * p.x_outer + inner * p.x_inner;
  out_offset = outer * p.out_outer + inner * p.out_inner;
}

// --- 16 bytes --------------------------------------------------------------------------------------------------------

struct alignas(16) Bytes16 { u32 word[4]; };

// Read once: past the L1 cache. The input never changes while a kernel runs, so the read may go the read-only way.
__device__ inline Bytes16 load_once(const void* p) {
  Bytes16 v;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "l"(p));
  return v;
}

// Written once and not read again here: first to leave the caches.
__device__ inline void store_once(void* p, const Bytes16& v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}

__device__ inline u32 misalignment(const void* p) { return (u32)(u64)p & 15u; }

// --- A row, seen as 16-byte packs between two ragged edges -----------------------------------------------------------
//
// With V > 1 elements a pack (elements side by side), the packs begin at the first 16-byte boundary at or after the
// row's start; the elements before it and those left over at the end, at most 2 * (V - 1), are its edges, read and
// written one by one. With V == 1 a pack is an element, at any stride, and there are no edges.
template <class T, int V>
struct Row {
  const T* x;
  T* out;
  i64 packs;       // whole packs
  i64 x_n, out_n;  // used where V == 1
  int head, edges;
  bool out_packed;  // the output's packs lie on 16-byte boundaries too

  __device__ Row(const Problem& p, i64 r) {
    i64 x_offset, out_offset;
    place(p, r, x_offset, out_offset);
    x = (const T*)p.x + x_offset;
    out = (T*)p.out + out_offset;
    x_n = p.x_n;
    out_n = p.out_n;
    head = 0;
    edges = 0;
    packs = p.n;
    out_packed = true;
    if constexpr (V > 1) {
      int before = (int)(((16 - misalignment(x)) & 15) / sizeof(T));
      head = before < p.n ? before : (int)p.n;
      packs = (p.n - head) / V;
      edges = (int)(p.n - packs * V);
      out_packed = misalignment(out + head) == 0;
    }
  }

  // Position in the row of edge e, in [0, edges).
  __device__ i64 edge(int e) const { return e < head ? e : e + packs * V; }
};

// --- Lanes -----------------------------------------------------------------------------------------------------------

__device__ inline float exchange(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline double exchange(double v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline u32 exchange(u32 v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline u64 exchange(u64 v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

#endif
