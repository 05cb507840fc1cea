// Running sums of a row: of a vector in order, of lanes in a tree (W. D. Hillis, G. L. Steele, "Data parallel
// algorithms", 1986), and of all elements before them in order.
#pragma once
#include "../sum/sum_of_lane.cuh"

// The sum of what is before this lane of its row, and of `all`. `shared` (a place for each thread) may be written again
// after the next barrier.
template <class W>
__device__ inline W sum_before(W own, W& all, W* shared, const Lane& lane) {
  const int reach = lane.step * lane.apart, width = reach < 32 ? reach : 32, at = threadIdx.x % width;
  W sum = own;
  for (int by = lane.apart; by < width; by *= 2) {
    const W other = __shfl_up_sync(0xffffffffu, sum, by);
    if (at >= by) sum += other;
  }
  W before = __shfl_up_sync(0xffffffffu, sum, lane.apart);
  if (at < lane.apart) before = 0;
  shared[threadIdx.x] = sum;
  if (reach > 32) __syncthreads();
  else __syncwarp();
  const int warp = lane.first * lane.apart / width;  // of those that the row has
  const W* last = shared + threadIdx.x - at - warp * width + width - lane.apart + at % lane.apart;
  all = 0;
  for (int k = 0; k * width < reach; ++k) {
    if (k == warp) before += all;
    all += last[k * width];
  }
  return before;
}

// Lanes take neighbouring vectors of `count` elements, in order. `before`: the sum of what is before them.
template <class T, class OUT, int V>
__device__ inline void scan(const Line<T, V>& x, const Line<OUT, V>& out, Sum<T> before, const Lane& lane, i64 count) {
  __shared__ Sum<T> shared[2][THREADS];
  const auto load = [&](i64 k) { return x.load_if(k < lane.n, k); };
  const i64 step = lane.step * V;
  auto next = load(lane.from + lane.first * V);
  int turn = 0;
  for (i64 done = 0; done < count; done += step) {  // as often in all threads, which meet
    const i64 k = lane.from + done + lane.first * V;
    const auto v = next;
    next = load(k + step);
    Sum<T> sums[V], all, own = 0;
    UNROLL for (int i = 0; i < V; ++i) sums[i] = own += widen(v[i]);
    const Sum<T> base = before + sum_before(own, all, shared[turn ^= 1], lane);
    if (k < lane.n) out.store(k, [&](int i) { return base + sums[i]; });
    before += all;
  }
}
