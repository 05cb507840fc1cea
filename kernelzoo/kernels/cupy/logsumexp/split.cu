// Several blocks share a row and store the (max, sum) states of their parts. The last to finish merges these.
#include "exponentials.cuh"

template <class T, class OUT, int V>
__global__ void __launch_bounds__(THREADS)
    split(const Problem given, const int lanes, const int across, Pair<Wide<T>>* partial, u32* arrived,
          const int parts, const i64 span) {
  const Problem p = wait_for_previous_launch(given);
  __shared__ Wide<T> shared[THREADS];
  const Lane lane = lane_of_part(p, lanes, V == 1 && across, parts, span);
  auto state = state_of_lane(line<T, 0, V>(p, lane), lane);
  const bool last = state_over_parts(state, partial, arrived, parts, shared, lane);
  if (last && lane.leads) narrow(state.m + log(state.s), line<OUT, 1>(p, lane)[0]);
}
