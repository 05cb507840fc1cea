// Several blocks share a row and store the least elements of their parts. The last to finish finds the least of these.
#include "../parts.cuh"
#include "least.cuh"

template <class T, int V>
__global__ void __launch_bounds__(THREADS)
    split(const Problem given, const int lanes, const int across, Found<Key<T>>* partial, u32* arrived,
          const int parts, const i64 span) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Found<Key<T>> shared[THREADS];
  const Lane lane = lane_of_part(p, lanes, V == 1 && across, parts, span);
  const auto x = line<T, 0, V>(p, lane);
  const auto meet = [&](Found<Key<T>> own) { return merge_lanes(own, shared, lane, Lesser{}); };
  auto least = least_of_lane(x, lane);
  const bool last = merge_parts(least, none_found<T>(p.n), partial, arrived, parts, lane, Lesser{}, meet);
  if (last && lane.leads) line<i64, 1>(p, lane)[0] = index_of_least(x, least, p.n);
}
