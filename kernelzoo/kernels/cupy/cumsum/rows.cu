// Lanes take neighbouring elements and add them up in a tree (W. D. Hillis, G. L. Steele, "Data parallel algorithms",
// 1986); the sums of all elements before them are added in order.
#include "../integers.cuh"
#include "../lanes.cuh"

// The sum up to this lane of its row; `shared` then has that of each thread.
template <class W>
__device__ inline W scan_lanes(W own, W* shared, const Lane& lane) {
  W* mine = shared + threadIdx.x;
  for (int reach = 1;; reach *= 2) {
    __syncthreads();  // what was there has been read
    *mine = own;
    __syncthreads();
    if (reach >= lane.step) return own;
    if (lane.first >= reach) own += mine[-reach * lane.apart];
  }
}

template <class T, class OUT>
__global__ void __launch_bounds__(THREADS) rows(const Problem given, const int lanes, const int across) {
  const Problem p = wait_for_previous_launch(given);
  using W = decltype(widen(T{}));
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, across);
  const auto x = line<const T, 0>(p, lane);
  const auto out = line<OUT, 1>(p, lane);
  const W* const last = shared + threadIdx.x + (lane.step - 1 - lane.first) * lane.apart;
  W before = 0;
  for (i64 from = 0; from < p.n; from += lane.step) {  // as often in all threads, which meet
    const i64 k = from + lane.first;
    const W sum = scan_lanes(k < lane.n ? widen(x[k]) : W(0), shared, lane);
    if (k < lane.n) narrow(before + sum, out[k]);
    before += *last;
  }
}
