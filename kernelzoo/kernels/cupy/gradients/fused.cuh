// Gradients of rows, or of columns, that stay in registers.
#pragma once
#include "multi_input.cuh"

// One block per row.
template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(1024) fused(const MultiInput<Gradient<T>::OTHERS> given) {
  using Op = Gradient<T>;
  const auto p = wait_for_previous_launch(given);
  using Total = typename Op::Total;
  __shared__ Total slots[32];
  const i64 r = block_index();
  if (r >= p.rows) return;
  const MultiInputRow<T, V> line(p, r);
  RegisterRow<T, V, ITEMS, (V > 1)> held;
  held.load(line, threadIdx.x, blockDim.x);
  held.write(Op::result(line.key[0], block_sum(held.sum(), slots)));
}

// Short rows: LANES lanes per row, ROWS rows per group of lanes. All loads are issued before the first result is used.
template <class T, int V, int LANES, int ITEMS, int ROWS, int EDGES>
__global__ void __launch_bounds__(128, 4) multi_row_tile(const MultiInput<Gradient<T>::OTHERS> given) {
  using Op = Gradient<T>;
  const auto p = wait_for_previous_launch(given);
  using Total = typename Op::Total;
  constexpr int GROUPS = 128 / LANES;
  constexpr bool ALONE = V == 1 && LANES == 1;  // a thread has a complete row of ITEMS elements
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const i64 first = block_index() * ROWS * GROUPS + group;
  RegisterRow<T, V, ITEMS, EDGES> held[ROWS];
  typename Op::Key key[ROWS];
  UNROLL for (int k = 0; k < ROWS; ++k) {  // at each k, adjacent groups take adjacent rows
    const i64 r = first + k * GROUPS;
    const bool live = r < p.rows;
    MultiInputRow<T, V> line(p, live ? r : 0);
    if (ALONE) line.packs = ITEMS;
    key[k] = line.key[0];
    held[k].load(line, lane, LANES, ALONE || live);
  }
  UNROLL for (int k = 0; k < ROWS; ++k) {
    const Total total = warp_sum<LANES>(held[k].sum());  // by all lanes of the warp, even if the row is past the end
    if (!ALONE || first + k * GROUPS < p.rows) held[k].write(Op::result(key[k], total));
  }
}

// The sum of `count` partial sums of a column, `step` apart.
template <class S>
__device__ inline S sum_of_column(const S* sums, int count, int step) {
  S s = 0;
  for (int k = 0; k < count; ++k) s += sums[k * step];
  return s;
}

// Columns: adjacent rows are adjacent in memory. So adjacent lanes read adjacent columns, and each loops down its own.
//
// A block processes a strip of LANES * V adjacent columns, V per pack, and reads THREADS / LANES elements of each at a
// time. A thread keeps its first ITEMS packs in registers, and `saved` batches of BATCH packs in shared memory. It
// reads the rest again. If `parts` > 1, so many blocks of a co-operative launch share a strip and exchange sums.
template <class T, int V, int ITEMS, int BATCH, int LANES, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS)
    columns(const MultiInput<Gradient<T>::OTHERS> given, typename Gradient<T>::Total* partial, u64* arrived,
            const int parts, const int saved) {
  using Op = Gradient<T>;
  const auto p = wait_for_previous_launch(given);
  using Total = typename Op::Total;
  constexpr int WIDE = LANES * V, DEPTHS = THREADS / LANES, TEAMS = THREADS / 32, RECEIVERS = THREADS / WIDE;
  extern __shared__ Bytes16 memory[];
  __shared__ Total slots[TEAMS * WIDE > THREADS ? TEAMS * WIDE : THREADS], totals[WIDE];
  const int lane = threadIdx.x % LANES, depth = threadIdx.x / LANES;
  const i64 strips = (p.inner + WIDE - 1) / WIDE, all_strips = p.rows / p.inner * strips;
  const bool alone = parts == 1;  // if so, there is one block per strip
  const int part = alone ? 0 : blockIdx.x % parts;
  const i64 group = alone ? block_index() : blockIdx.x / parts, groups = alone ? all_strips : gridDim.x / parts;
  const i64 share = (p.n + parts - 1) / parts, first = part * share + depth;
  const i64 end = (part + 1) * share < p.n ? (part + 1) * share : p.n;

  for (i64 g = group; g < all_strips; g += groups) {
    const i64 outer = all_strips >> 32 ? g / strips : (u32)g / (u32)strips;
    const i64 inner = (g - outer * strips) * WIDE + lane * V;
    const bool live = inner < p.inner;
    ThreadPacks<T, V, Op::INPUTS> walk;
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
    UNROLL for (int k = 0; k < V; ++k) key[k] = Op::key(p, outer, live ? inner + k : 0);

    StagedPacks<T, V, V, ITEMS, BATCH> staged;
    CompensatedSum<Total> run[V];
    staged.accumulate(walk, key, run, memory, saved);

    // Add up over the lanes of a warp that share a column, then over warps, then over blocks.
    UNROLL for (int k = 0; k < V; ++k) {
      const Total s = warp_sum<32, LANES>(run[k].all());
      if ((threadIdx.x & 31) < LANES) slots[threadIdx.x / 32 * WIDE + lane * V + k] = s;
    }
    __syncthreads();
    Total all = 0;
    if (threadIdx.x < WIDE) all = sum_of_column(slots + threadIdx.x, TEAMS, WIDE);
    if (!alone) {
      Total* here = partial + g * parts * WIDE;
      if (threadIdx.x < WIDE) here[part * WIDE + threadIdx.x] = all;
      grid_barrier(arrived + g, parts);
      Total mine = 0;
      for (int k = threadIdx.x / WIDE; k < parts; k += RECEIVERS) mine += here[k * WIDE + threadIdx.x % WIDE];
      slots[threadIdx.x] = mine;
      __syncthreads();
      if (threadIdx.x < WIDE) all = sum_of_column(slots + threadIdx.x, RECEIVERS, WIDE);
    }
    if (threadIdx.x < WIDE) totals[threadIdx.x] = all;
    __syncthreads();
    typename Op::Result result[V];
    UNROLL for (int k = 0; k < V; ++k) result[k] = Op::result(key[k], totals[lane * V + k]);
    staged.write(walk, key, result, memory, saved);
  }
}
