// A row's (max, sum) state: the running maximum, and the sum of exp(x - max).
#pragma once
#include "../parts.cuh"
#include "../softmax/pairs.cuh"

template <class W> __device__ inline W largest_finite();
template <> __device__ inline float largest_finite() { return 3.4028234663852886e38f; }
template <> __device__ inline double largest_finite() { return 1.7976931348623157e308; }

// The (max, sum) state of a lane's elements, in one pass. each(body) must call body(elements, index) for all of them.
// The maximum stays finite, so that no two infinities are subtracted. A row of only -inf has the sum 0. A row with +inf
// has the sum inf. A NaN makes the sum NaN.
template <class T, class Each>
__device__ inline Pair<Wide<T>> state_of(Each each) {
  using W = Wide<T>;
  W m = -largest_finite<W>();
  CompensatedSum<W> sum;
  each([&](const auto& v, i64) {
    W top = m;
    UNROLL for (int i = 0; i < v.COUNT; ++i) top = maximum(top, widen(v[i]));
    top = -maximum(-top, -largest_finite<W>());
    sum.scale(exponential(m - top));
    sum.add(sum_of_terms(v, [&](T e) { return exponential(widen(e) - top); }));
    m = top;
  });
  return {m, sum.all()};
}
template <class T, int V>
__device__ inline Pair<Wide<T>> state_of_lane(const Line<T, V>& x, const Lane& lane) {
  return state_of<T>([&](auto body) { for_each_vector(x, lane, body); });
}

// The state of a row, merged from its lanes' states.
template <class W>
__device__ inline Pair<W> state_over_lanes(Pair<W> own, W* shared, const Lane& lane) {
  const W top = merge_lanes(own.m, shared, lane, [](W a, W b) { return maximum(a, b); });
  return {top, sum_over_lanes(own.s * exponential(own.m - top), shared, lane)};
}
// Whether this block is the last of those that share a row. If so, `own` becomes the row's state; see merge_parts.
template <class W>
__device__ inline bool state_over_parts(
    Pair<W>& own, Pair<W>* partial, u32* arrived, int parts, W* shared, const Lane& lane) {
  const auto meet = [&](Pair<W> state) { return state_over_lanes(state, shared, lane); };
  const auto merge = [](Pair<W> a, Pair<W> b) {
    const W top = maximum(a.m, b.m);
    return Pair<W>{top, a.s * exponential(a.m - top) + b.s * exponential(b.m - top)};
  };
  return merge_parts(own, {-largest_finite<W>(), 0}, partial, arrived, parts, lane, merge, meet);
}
