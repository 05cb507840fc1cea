// Lanes find a row's (max, sum) state, then read the row again and write.
#include "../logsumexp/exponentials.cuh"

template <class T, int V, int ITEMS>
__global__ void __launch_bounds__(THREADS)
    rows(const MultiInput<2> given, const int lanes, const int across, const i64 ignore_index) {
  const auto p = wait_for_previous_launch(given);
  using W = Wide<T>;
  __shared__ W shared[THREADS];
  const Lane lane(p, lanes, V == 1 && across);
  MultiPassRow<T, V, ITEMS> x(line<T, 0, V>(p, lane), lane);
  const i64 label = line<const i64, 1>(p, lane)[0];
  const auto out = line<T, 3, V>(p, lane);
  const bool inside = 0 <= label && label < p.n;
  const W grad = inside ? widen(line<const T, 2>(p, lane)[0]) : W(__int_as_float(0x7fffffff));
  const auto state = state_over_lanes(state_of<T>([&](auto body) { x.each(body); }), shared, lane);
  const W inverse = 1 / state.s + (state.s - state.s);  // NaN if the sum is infinite
  x.each([&](const auto& v, i64 k) {
    out.store(k, [&](int i) {
      const W share = exponential(widen(v[i]) - state.m) * inverse - (k + i == label ? 1 : 0);
      return label == ignore_index ? W(0) : grad * share;
    });
  });
}
