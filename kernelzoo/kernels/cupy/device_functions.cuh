// Common to all kernels: dtypes, the problem, and exchanges between lanes and between blocks.
//
// No CUDA header is included, so NVRTC needs no toolkit. Half precisions are 16-bit words, which PTX widens and
// narrows.
#pragma once

#define UNROLL _Pragma("unroll")  // so that array indices are constants, and arrays stay in registers

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct float16 { u16 bits; };
struct bfloat16 { u16 bits; };

// The canonical problem: x and out have the shape (outer, n, inner). A minimum's out has no n. Strides count elements.
struct Layout {
  i64 rows, n, inner;
  i64 x_outer, x_n, x_inner;
  i64 out_outer, out_n, out_inner;
  double inner_inverse;  // 1 / inner
};

template <int COUNT> struct Addresses { const void *x, *other[COUNT]; void* out; };
template <> struct Addresses<0> { const void* x; void* out; };

struct Problem : Addresses<0>, Layout { static constexpr int OTHERS = 0; };

// A problem with OTHERS more tensors between x and out, each (outer, n, inner). Along an axis that a tensor lacks, its
// stride is 0.
struct Strides { i64 outer, n, inner; };
template <int COUNT>
struct MultiInput : Addresses<COUNT>, Layout {
  static constexpr int OTHERS = COUNT;
  Strides strides[COUNT];
};

// Every kernel calls this first, because the previous launch may still run (see shared/driver.py). Addresses pass
// through the asm, so that no load is moved ahead of it. No kernel lets the next one begin early: only benchmarks would
// gain.
template <class P>
__device__ inline P wait_for_previous_launch(P p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : "+l"(p.x), "+l"(p.out) :: "memory");
  if constexpr (P::OTHERS > 0) for (const void*& address : p.other) asm volatile("" : "+l"(address));
#endif
  return p;
}

__device__ inline i64 block_index() { return blockIdx.x + (i64)blockIdx.y * gridDim.x; }

// Row r has the coordinates (outer, inner) = (r / inner, r % inner).
__device__ inline void row_coords(const Layout& p, i64 r, i64& outer, i64& inner) {
  outer = r, inner = 0;
  if (p.inner != 1) {  // a 64-bit division takes a hundred instructions; this is exact up to 2^52 rows
    outer = (i64)((double)r * p.inner_inverse);
    inner = r - outer * p.inner;
    if (inner < 0) outer -= 1, inner += p.inner;
    if (inner >= p.inner) outer += 1, inner -= p.inner;
  }
}

template <class V> __device__ inline V shuffle_xor(V v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

// The sum over LANES adjacent lanes, or if FROM > 1, over every FROM-th of them. Both are powers of two. Every lane
// gets the same bits.
template <int LANES, int FROM = 1, class V>
__device__ inline V warp_sum(V v) {
  UNROLL for (int mask = LANES / 2; mask >= FROM; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}

// A long sum and the sum of its rounding errors (D. E. Knuth's two-sum). Sums of integers have no errors.
template <class S>
struct CompensatedSum {
  S sum = 0, lost = 0;
  __device__ void add(S v) {
    const S next = sum + v, added = next - sum;
    lost += (sum - (next - added)) + (v - added);
    sum = next;
  }
  __device__ void scale(S by) { sum *= by, lost *= by; }
  __device__ S all() const { return sum - sum == 0 ? sum + lost : sum; }  // infinity stays infinity
};

// The sum of `count` numbers in memory. Every warp computes it.
template <class V>
__device__ inline V sum_of_slots(const V* slots, int count) {
  V sum = 0;
  for (int k = threadIdx.x & 31; k < count; k += 32) sum += slots[k];
  return warp_sum<32>(sum);
}

// Send a word to other blocks. The word's old value must be one that is never sent: the reader polls until it changes.
__device__ inline void send_word(u64* at, u64 word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(at), "l"(word) : "memory");
}
__device__ inline u64 peek_word(const u64* at) {
  u64 word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return word;
}
// Increment a counter, and return its old value. A block that reads the new value also sees all earlier writes.
__device__ inline u64 count_up(u64* at) {
  u64 before;
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(at) : "memory");
  return before;
}

// Whether this block is the last of `chunks` blocks to call this, each after writing its result to device memory. The
// counter returns to zero for the next launch.
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
