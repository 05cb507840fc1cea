// The sum of a lane's elements.
#pragma once
#include "../lanes.cuh"

template <class T> using Sum = decltype(widen(T{}));

// A vector is added up in a tree. The running sum over vectors keeps its rounding errors.
template <class T, int V>
__device__ inline Sum<T> sum_of_lane(const Line<T, V>& x, const Lane& lane) {
  CompensatedSum<Sum<T>> sum;
  for_each_vector(x, lane, [&](const auto& v, i64) { sum.add(sum_of_terms(v, [](T e) { return widen(e); })); });
  return sum.all();
}
