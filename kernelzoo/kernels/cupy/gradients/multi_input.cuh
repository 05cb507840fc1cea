// Gradients in which a result depends on its own element and on a sum over its row (or column).
//
// An operation's struct Gradient defines four types. Key is data of a row besides its elements. Total is the sum's
// type. Result is data of a row that its results need. Packs is a thread's packs. The lanes' numbers fix the order of
// the sums.
#pragma once
#include "../vector_io.cuh"

// Defined in each operation's gradient.cuh. INPUTS is the number of input tensors with several elements per row.
template <class T> struct Gradient;

// The sum over the block, with one barrier. `slots` has 32 elements, and may be written again after the next barrier.
template <class S>
__device__ inline S block_sum(S s, S* slots) {
  s = warp_sum<32>(s);
  if ((threadIdx.x & 31) == 0) slots[threadIdx.x / 32] = s;
  __syncthreads();
  return sum_of_slots(slots, blockDim.x / 32);
}

// Wait until all `chunks` blocks of a row call this. Each launch adds `chunks` to `arrived`, which is never reset.
__device__ inline void grid_barrier(u64* arrived, int chunks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    u64 now;
    const u64 complete = (count_up(arrived) / chunks + 1) * chunks;
    do {
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(arrived) : "memory");
    } while (now < complete);
  }
  __syncthreads();
}

// The addresses of a thread's packs in out and in the INPUTS tensors with several elements per row. Pack i exists if i
// * stride < left. The first input's packs are aligned to 16 bytes; the second's if in_packed, out's if out_packed.
template <class T, int V, int INPUTS>
struct ThreadPacks {
  const T* in[INPUTS];
  T* out;
  i64 in_step[INPUTS], out_step;  // elements from one pack to the next
  i64 left;
  int stride;
  bool in_packed, out_packed;

  __device__ bool inside(i64 i) const { return i * stride < left; }

  // Pack i of an input; zeros if it doesn't exist. KEPT: use load_kept.
  template <bool KEPT>
  __device__ Pack<T, V> load(int input, i64 i) const {
    Pack<T, V> pack;
    const T* at = in[input] + i * in_step[input];
    if constexpr (V == 1) {
      pack.value = 0;
      if (inside(i)) pack.load(at);
    } else {
      const Bytes16 zeros = {};
      pack.raw = KEPT ? load_kept_if(inside(i), at, zeros) : load_once_if(inside(i), at, zeros);
    }
    return pack;
  }
  // The same for an input whose packs are not aligned to 16 bytes.
  __device__ Pack<T, V> load_unaligned(int input, i64 i) const {
    Pack<T, V> pack;
    pack.raw = Bytes16{};
    if (inside(i)) {
      const T* at = in[input] + i * in_step[input];
      UNROLL for (int k = 0; k < 4; ++k) {
        const bool half = sizeof(T) == 2;
        pack.raw.word[k] = half ? ((const u16*)at)[2 * k] | (u32)((const u16*)at)[2 * k + 1] << 16 : ((const u32*)at)[k];
      }
    }
    return pack;
  }
};

// Row r, as packs of the first input between two unaligned edges; and the address of a second input's row.
template <class T, int V>
struct MultiInputRow : Row<T, V> {
  using Op = Gradient<T>;
  static constexpr int INPUTS = Op::INPUTS;
  const T* in[INPUTS];
  i64 in_n[INPUTS];
  bool in_packed;
  typename Op::Key key[1];

  __device__ MultiInputRow(const MultiInput<Op::OTHERS>& p, i64 r) : Row<T, V>(p, r) {
    in[0] = this->x, in_n[0] = p.x_n;
    if constexpr (INPUTS == 2) {
      in[1] = (const T*)p.other[0] + this->outer * p.strides[0].outer + this->inner * p.strides[0].inner;
      in_n[1] = p.strides[0].n;
    }
    in_packed = V == 1 || misalignment(in[INPUTS - 1] + this->head) == 0;
    key[0] = Op::key(p, this->outer, this->inner);
  }

  // A thread's packs: numbers first, first + stride, ... below `to`.
  __device__ ThreadPacks<T, V, INPUTS> walk(i64 first, i64 to, int stride) const {
    ThreadPacks<T, V, INPUTS> walk;
    UNROLL for (int k = 0; k < INPUTS; ++k) {
      const i64 step = V > 1 ? V : in_n[k];
      walk.in[k] = in[k] + this->head + first * step, walk.in_step[k] = stride * step;
    }
    walk.out = this->out_pack(first), walk.out_step = stride * (V > 1 ? V : this->out_n);
    walk.left = to - first, walk.stride = stride;
    walk.in_packed = in_packed, walk.out_packed = this->out_packed;
    return walk;
  }
  // Edge element e, if it exists.
  __device__ ThreadPacks<T, 1, INPUTS> edge(int e) const {
    const i64 at = Row<T, V>::edge(e);
    ThreadPacks<T, 1, INPUTS> walk;
    UNROLL for (int k = 0; k < INPUTS; ++k) walk.in[k] = in[k] + at, walk.in_step[k] = 0;
    walk.out = this->out + at, walk.out_step = 0;
    walk.left = this->edges - e, walk.stride = this->edges;  // no second pack
    return walk;
  }
};

// A thread's part of a row: ITEMS packs and, if EDGES, one edge element. All loads are issued before the first is used.
template <class T, int V, int ITEMS, bool EDGES>
struct RegisterRow {
  using Op = Gradient<T>;
  using Total = typename Op::Total;
  ThreadPacks<T, V, Op::INPUTS> walk;
  ThreadPacks<T, 1, Op::INPUTS> at_edge;
  typename Op::template Packs<V, 1, ITEMS> packs;
  typename Op::template Packs<1, 1, 1> edge;

  __device__ void load(const MultiInputRow<T, V>& line, int lane, int lanes, bool live = true) {
    walk = line.walk(lane, live ? line.packs : 0, lanes);
    if constexpr (EDGES) {
      at_edge = line.edge(lane);
      if (!live) at_edge.left = 0;
    }
    packs.template load<true>(walk, line.key, 0);
    if constexpr (EDGES) edge.template load<true>(at_edge, line.key, 0);
  }
  __device__ Total sum() {
    Total all[1], last[1] = {0};
    packs.sum(all);
    if constexpr (EDGES) edge.sum(last);
    return EDGES ? all[0] + last[0] : all[0];
  }
  __device__ void write(const typename Op::Result& result) {
    const typename Op::Result by[1] = {result};
    packs.template write<true>(walk, by, 0);
    if constexpr (EDGES) edge.template write<true>(at_edge, by, 0);
  }
};

// Any number of packs per thread. ITEMS packs stay in registers and `saved` batches in shared memory. The rest are read
// twice. Each of COLUMNS columns has a running sum; a row has one.
template <class T, int V, int COLUMNS, int ITEMS, int BATCH>
struct StagedPacks {
  using Op = Gradient<T>;
  template <int COUNT> using Packs = typename Op::template Packs<V, COLUMNS, COUNT>;
  using Total = typename Op::Total;
  using Key = typename Op::Key;
  using Result = typename Op::Result;
  using Thread = ThreadPacks<T, V, Op::INPUTS>;
  Packs<ITEMS> first;

  template <int COUNT>
  __device__ static void add(Packs<COUNT>& held, CompensatedSum<Total> (&run)[COLUMNS]) {
    Total sums[COLUMNS];
    held.sum(sums);
    UNROLL for (int k = 0; k < COLUMNS; ++k) run[k].add(sums[k]);
  }

  __device__ void accumulate(
      const Thread& walk, const Key (&key)[COLUMNS], CompensatedSum<Total> (&run)[COLUMNS], Bytes16* memory, int saved) {
    first.template load<true>(walk, key, 0);
    add(first, run);
    for (int b = 0; b < saved; ++b) {
      Packs<BATCH> batch;
      batch.template load<true>(walk, key, ITEMS + b * BATCH);
      add(batch, run);
      batch.save(memory, b);
    }
    for (i64 i = ITEMS + saved * BATCH; walk.inside(i); i += BATCH) {
      Packs<BATCH> batch;
      batch.template load<false>(walk, key, i);
      add(batch, run);
    }
  }

  __device__ void write(
      const Thread& walk, const Key (&key)[COLUMNS], const Result (&result)[COLUMNS], Bytes16* memory, int saved) {
    first.template write<true>(walk, result, 0);
    for (int b = 0; b < saved; ++b) {
      Packs<BATCH> batch;
      batch.restore(memory, b);
      batch.template write<true>(walk, result, ITEMS + b * BATCH);
    }
    for (i64 i = ITEMS + saved * BATCH; walk.inside(i); i += BATCH) {
      Packs<BATCH> batch;
      batch.template load<false>(walk, key, i);
      batch.template write<false>(walk, result, i);
    }
  }
};
