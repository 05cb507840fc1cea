// Running sums of a row: in order within a vector, and in a tree over lanes. Tiles of one vector per lane follow in
// order. After W. D. Hillis, G. L. Steele, "Data parallel algorithms", 1986.
#pragma once
#include "../sum/sum_of_lane.cuh"

// Returns the sum over the row's lanes before this one; `all` gets the sum over all its lanes. WARPS: the row has
// complete, adjacent warps. `shared`, an element per thread, may be written again after the next barrier.
template <bool WARPS, class W>
__device__ inline W sum_before(W own, W& all, W* shared, const Lane& lane) {
  const int apart = WARPS ? 1 : lane.apart, reach = lane.step * apart, width = WARPS || reach > 32 ? 32 : reach;
  const int at = threadIdx.x & (width - 1), warp = lane.first * apart / 32;  // among the row's warps
  W sum = own;
  UNROLL for (int by = 1; by < 32; by *= 2) {
    if (!WARPS && (by < apart || by >= width)) continue;
    const W other = __shfl_up_sync(0xffffffffu, sum, by);
    if (at >= by) sum += other;
  }
  W before = __shfl_up_sync(0xffffffffu, sum, apart);
  if (at < apart) before = 0;
  shared[threadIdx.x] = sum;
  if (reach > 32) __syncthreads();
  else __syncwarp();
  const W* last = shared + threadIdx.x - at - warp * 32 + width - apart + (at & (apart - 1));
  all = 0;
#pragma unroll 4
  for (int k = 0; k * 32 < reach; ++k) {
    const W sum_of_warp = last[k * 32];
    if (k < warp) before += sum_of_warp;
    all += sum_of_warp;
  }
  return before;
}

// Scan `count` elements. Adjacent lanes take adjacent vectors. `before`: the sum of the elements before the first.
template <class T, class OUT, int V>
__device__ inline void scan(const Line<T, V>& x, const Line<OUT, V>& out, Sum<T> before, const Lane& lane, i64 count) {
  __shared__ Sum<T> shared[2][THREADS];
  const auto load = [&](i64 k) { return x.load_if(k < lane.n, k); };
  const i64 step = lane.step * V;
  auto next = load(lane.from + lane.first * V);
  int turn = 0;
  for (i64 done = 0; done < count; done += step) {  // the same number of times in all threads, because of the barriers
    const i64 k = lane.from + done + lane.first * V;
    const auto v = next;
    next = load(k + step);
    Sum<T> sums[V], all, own = 0;
    UNROLL for (int i = 0; i < V; ++i) sums[i] = own += widen(v[i]);
    const Sum<T> base = before + sum_before<(V > 1)>(own, all, shared[turn ^= 1], lane);
    if (k < lane.n) out.store(k, [&](int i) { return base + sums[i]; });
    before += all;
  }
}
