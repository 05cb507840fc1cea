// The loss of a row, computed from the row's (max, sum) state and its label's logit.
#pragma once
#include "../logsumexp/exponentials.cuh"

template <class T, class P>
__device__ inline void store_loss(const P& p, const Lane& lane, Pair<Wide<T>> state, i64 ignore_index) {
  using W = Wide<T>;
  const i64 label = line<i64, 1>(p, lane)[0];
  const W picked = 0 <= label && label < p.n ? widen(line<T, 0>(p, lane)[label]) : W(__int_as_float(0x7fffffff));
  const W infinite = state.s - state.s;  // NaN if the sum is infinite, else 0
  const W loss = log(state.s) - (picked - state.m) + infinite;
  narrow(label == ignore_index ? W(0) : loss, line<T, 2>(p, lane)[0]);
}
