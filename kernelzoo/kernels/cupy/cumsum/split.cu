// Several blocks share a row. First each adds up its part. Then each scans it, from the sum of all parts before it.
#include "../parts.cuh"
#include "scan.cuh"

template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    sums_of_parts(const Problem given, const int lanes, const int across, Sum<T>* partial, const int parts,
                  const i64 span) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Sum<T> shared[THREADS];
  const Lane lane = lane_of_part(p, lanes, V == 1 && across, parts, span);
  const auto all = sum_over_lanes(sum_of_lane(line<T, 0, V>(p, lane), lane), shared, lane);
  if (lane.leads) partial[lane.r * parts + block_index() % parts] = all;
}

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS)
    split(const Problem given, const int lanes, const int across, Sum<T>* partial, const int parts, const i64 span) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Sum<T> shared[THREADS];
  const Lane lane = lane_of_part(p, lanes, V == 1 && across, parts, span);
  const int part = (int)(block_index() % parts);
  Sum<T> before = 0;
  for (int k = lane.first; lane.live && k < part; k += lane.step) before += partial[lane.r * parts + k];
  before = sum_over_lanes(before, shared, lane);
  scan(line<T, 0, V>(p, lane), line<OUT, 1, V>(p, lane), before, lane, span < p.n ? span : p.n);
}
