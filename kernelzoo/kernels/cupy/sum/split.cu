// Several blocks share a row and store the sums of their parts. The last to finish adds these up in a tree.
#include "../parts.cuh"
#include "sum_of_lane.cuh"

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS)
    split(const Problem given, const int lanes, const int across, Sum<T>* partial, u32* arrived, const int parts,
          const i64 span) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Sum<T> shared[THREADS];
  const Lane lane = lane_of_part(p, lanes, V == 1 && across, parts, span);
  const auto meet = [&](Sum<T> own) { return sum_over_lanes(own, shared, lane); };
  auto all = sum_of_lane(line<T, 0, V>(p, lane), lane);
  const bool last = merge_parts(all, Sum<T>(0), partial, arrived, parts, lane, Plus{}, meet);
  if (last && lane.leads) narrow(all, line<OUT, 1>(p, lane)[0]);
}
