// What both operations share: dtypes, 16-byte packs, rows with their edges peeled, and reductions across lanes.
//
// No header of CUDA is included, so that NVRTC needs no toolkit on the machine: half precisions are 16 bits here, and
// PTX widens and narrows them. Needs compute capability 8.0.
#pragma once

#define UNROLL _Pragma("unroll")  // so that every index of an array is a constant, and the array stays in registers

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

// How every kernel begins. The launch before this one may still be ending (see shared/driver.py): wait until all that
// came before has ended and is visible. The addresses pass through the wait, so that no load can be moved ahead of it.
// No kernel here lets the next launch begin early (griddepcontrol.launch_dependents): that would help two launches of
// ours in a row, as a benchmark makes them, and no one who calls us between kernels of others.
__device__ inline Problem begin(const Problem& given) {
  Problem p = given;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : "+l"(p.x), "+l"(p.out) :: "memory");
#endif
  return p;
}

__device__ inline i64 block_index() { return blockIdx.x + (i64)blockIdx.y * gridDim.x; }

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

// Read once: past the L1 cache. Not the read-only way (ld.global.nc): a launch may begin before the one that wrote the
// input has ended.
__device__ inline Bytes16 load_once(const void* p) {
  Bytes16 v;
  asm("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "l"(p));
  return v;
}

// The same, or `otherwise`: by a predicate and not a branch, so that several are on their way at once.
__device__ inline Bytes16 load_once_if(bool wanted, const void* p, const Bytes16& otherwise) {
  Bytes16 v = otherwise;
  asm("{.reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
      " @wanted ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3]) : "l"(p), "r"((u32)wanted));
  return v;
}

// Read once by what writes as much: the L2 cache keeps it longer than the results, which then leave for memory steadily.
__device__ inline Bytes16 load_kept(const void* p) {
  Bytes16 v;
  asm("{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
      " ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;}"
      : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "l"(p));
  return v;
}

// The same, or `otherwise`.
__device__ inline Bytes16 load_kept_if(bool wanted, const void* p, const Bytes16& otherwise) {
  Bytes16 v = otherwise;
  asm("{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;"
      " .reg .pred wanted; setp.ne.u32 wanted, %5, 0;"
      " @wanted ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy;}"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3]) : "l"(p), "r"((u32)wanted));
  return v;
}

// Written once, and left to the caches' own ways. Of plain assignments the compiler makes code that spills.
__device__ inline void store_plain(void* p, const Bytes16& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]) : "memory");
}

// The same where a row is read again after it: first to leave the caches.
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
  int head = 0, edges = 0;
  bool out_packed = true;  // the output's packs lie on 16-byte boundaries too

  __device__ Row(const Problem& p, i64 r) : packs(p.n), x_n(p.x_n), out_n(p.out_n) {
    i64 x_offset, out_offset;
    place(p, r, x_offset, out_offset);
    x = (const T*)p.x + x_offset;
    out = (T*)p.out + out_offset;
    if constexpr (V > 1) {
      int before = (int)(((16 - misalignment(x)) & 15) / sizeof(T));
      head = before < p.n ? before : (int)p.n;
      packs = (p.n - head) / V;
      edges = (int)(p.n - packs * V);
      out_packed = misalignment(out + head) == 0;
    }
  }

  // Where pack j begins.
  __device__ const T* x_pack(i64 j) const { return x + head + j * (V > 1 ? (i64)V : x_n); }
  __device__ T* out_pack(i64 j) const { return out + head + j * (V > 1 ? (i64)V : out_n); }

  // Position in the row of edge e, in [0, edges).
  __device__ i64 edge(int e) const { return e < head ? e : e + packs * V; }
};

// --- Lanes -----------------------------------------------------------------------------------------------------------

__device__ inline float exchange(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline double exchange(double v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline u32 exchange(u32 v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline u64 exchange(u64 v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// 16 bytes to shared memory without a register between, past the L1 cache.
__device__ inline void copy_async(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline void wait_async() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Values that meet in device memory: 32 bits at a time, each beside a tag that says which launch it is of, in one
// 64-bit word. A reader that sees the tag has the value too: no fence, and no trip to a counter. Tags count launches;
// each block takes the one after its own last.
__device__ inline void send_tagged(u64* at, u32 tag, u32 value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(at), "l"((u64)tag << 32 | value) : "memory");
}
// A word of any content, where the reader knows of one that none has.
__device__ inline void send_word(u64* at, u64 word) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(at), "l"(word) : "memory");
}
// One more; how many there were. What was written before is seen by who sees the count.
__device__ inline u64 count_up(u64* at) {
  u64 before;
  asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(at) : "memory");
  return before;
}
__device__ inline u64 peek_tagged(const u64* at) {
  u64 word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return word;
}
__device__ inline u32 receive_tagged(const u64* at, u32 tag) {
  u64 word;
  do word = peek_tagged(at);
  while ((u32)(word >> 32) != tag);
  return (u32)word;
}

// --- Of compute capability 9.0: barriers in shared memory, bulk copies, clusters -------------------------------------
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Of 512 threads, of a split_cluster, on an SM: two would spill from compute capability 12.0 on.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1200
enum { SPLIT_BLOCKS = 1 };
#else
enum { SPLIT_BLOCKS = 2 };
#endif

__device__ inline void init_barrier(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ inline void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}
__device__ inline void arrive_expecting(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// By a block's first warp: a barrier that expects so many bytes. One thread makes it and arrives at it: compute-sanitizer
// takes that for a race unless a warp's barrier stands between.
__device__ inline void arm_barrier(u64* barrier, u32 bytes) {
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      init_barrier(barrier, 1);
      fence_barriers();
    }
    __syncwarp();
    if (threadIdx.x == 0) arrive_expecting(barrier, bytes);
    __syncwarp();
  }
}
__device__ inline void wait_for(u64* barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  } while (!done);
}

// A contiguous piece of device memory to shared memory, both on 16-byte boundaries; the barrier counts its bytes.
__device__ inline u64 keep_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline u64 stream_policy() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void copy_bulk(void* to, const void* from, u32 bytes, u64* barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
      :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy) : "memory");
}

// That this block runs, and that the barriers it made are there (fence_barriers). Not a release: that would wait, before
// the first load, until whatever was written is seen by the whole device.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// 64 bits to the same place in the shared memory of block `rank` of the cluster, whose barrier counts the bytes.
__device__ inline void send_remote(const void* place, u64* barrier, u32 rank, u64 value) {
  u32 to, counted;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(place)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counted) : "r"(shared_address(barrier)), "r"(rank));
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
               :: "r"(to), "l"(value), "r"(counted) : "memory");
}

#endif
