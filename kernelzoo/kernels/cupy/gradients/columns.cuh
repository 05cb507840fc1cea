// Columns: the rows lie side by side, so lanes run along them and each thread walks down its own.
//
// A block takes a strip of LANES * V neighbouring columns (V of them a pack) and THREADS / LANES of their elements at a
// time. The first ITEMS packs of a thread stay in registers, those of `saved` batches of BATCH more in shared memory; the
// others are read again. With SPLIT, `parts` blocks of a co-operative launch share a strip, and wait for each other's sums.
#ifndef KERNELZOO_GRADIENTS_COLUMNS_CUH
#define KERNELZOO_GRADIENTS_COLUMNS_CUH

#include "../meet.cuh"
#include "gradients.cuh"

// The sums of one column, `step` apart.
template <class S>
__device__ inline S sum_of_column(const S* sums, int count, int step) {
  S s = 0;
  for (int k = 0; k < count; ++k) s += sums[k * step];
  return s;
}

template <class Op, int V, int ITEMS, int BATCH, int LANES, int THREADS, bool SPLIT>
__device__ inline void strips_of_block(
    const Several<Op::OTHERS>& given, typename Op::Total* partial, u64* arrived, const int parts, const int saved) {
  const Several<Op::OTHERS> p = begin(given);
  using T = typename Op::T;
  using Total = typename Op::Total;
  constexpr int WIDE = LANES * V, DEPTHS = THREADS / LANES, TEAMS = THREADS / 32, RECEIVERS = THREADS / WIDE;
  extern __shared__ Bytes16 memory[];
  __shared__ Total slots[TEAMS * WIDE > THREADS ? TEAMS * WIDE : THREADS], totals[WIDE];
  const int lane = threadIdx.x % LANES, depth = threadIdx.x / LANES;
  const i64 strips = (p.inner + WIDE - 1) / WIDE, all_strips = p.rows / p.inner * strips;
  const int part = SPLIT ? (int)(blockIdx.x % parts) : 0;
  const i64 group = SPLIT ? blockIdx.x / parts : block_index(), groups = SPLIT ? gridDim.x / parts : all_strips;
  const i64 share = SPLIT ? (p.n + parts - 1) / parts : p.n, first = part * share + depth;
  const i64 end = (part + 1) * share < p.n ? (part + 1) * share : p.n;

  for (i64 g = group; g < all_strips; g += groups) {
    const i64 outer = all_strips >> 32 ? g / strips : (u32)g / (u32)strips;
    const i64 inner = (g - outer * strips) * WIDE + lane * V;
    const bool live = inner < p.inner;
    Walk<T, V, Op::INPUTS> walk;
    walk.in[0] = (const T*)p.x + outer * p.x_outer + inner * p.x_inner + first * p.x_n;
    walk.in_step[0] = DEPTHS * p.x_n;
    if constexpr (Op::INPUTS == 2) {
      const Strides& y = p.strides[0];
      walk.in[1] = (const T*)p.other[0] + outer * y.outer + inner * y.inner + first * y.n;
      walk.in_step[1] = DEPTHS * y.n;
    }
    walk.out = (T*)p.out + outer * p.out_outer + inner * p.out_inner + first * p.out_n;
    walk.out_step = DEPTHS * p.out_n;
    walk.left = live ? end - first : 0, walk.stride = DEPTHS;
    walk.in_packed = walk.out_packed = true;
    typename Op::Key key[V];
#pragma unroll
    for (int k = 0; k < V; ++k) key[k] = Op::key(p, outer, live ? inner + k : 0);

    Stay<Op, V, V, ITEMS, BATCH> stay;
    Running<Total> run[V];
    stay.take_in(walk, key, run, memory, saved);

    // Across the lanes of a warp that share a column, across the warps, and across the blocks.
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const Total s = sum_of_lanes<32, LANES>(run[k].all());
      if ((threadIdx.x & 31) < LANES) slots[threadIdx.x / 32 * WIDE + lane * V + k] = s;
    }
    __syncthreads();
    Total all = 0;
    if (threadIdx.x < WIDE) all = sum_of_column(slots + threadIdx.x, TEAMS, WIDE);
    if constexpr (SPLIT) {
      Total* here = partial + g * parts * WIDE;
      if (threadIdx.x < WIDE) here[part * WIDE + threadIdx.x] = all;
      meet(arrived + g, parts);
      Total mine = 0;
      for (int k = threadIdx.x / WIDE; k < parts; k += RECEIVERS) mine += here[k * WIDE + threadIdx.x % WIDE];
      slots[threadIdx.x] = mine;
      __syncthreads();
      if (threadIdx.x < WIDE) all = sum_of_column(slots + threadIdx.x, RECEIVERS, WIDE);
    }
    if (threadIdx.x < WIDE) totals[threadIdx.x] = all;
    __syncthreads();
    typename Op::Result result[V];
#pragma unroll
    for (int k = 0; k < V; ++k) result[k] = Op::result(key[k], totals[lane * V + k]);
    stay.write(walk, key, result, memory, saved);
  }
}

#endif
