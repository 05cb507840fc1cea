// What a lane adds up.
#pragma once
#include "../lanes.cuh"

template <class T> using Sum = decltype(widen(T{}));

// Of each vector in a tree, and of these with what each addition rounds off.
template <class T, int V>
__device__ inline Sum<T> sum_of_lane(const Line<T, V>& x, const Lane& lane) {
  CompensatedSum<Sum<T>> sum;
  for_each_vector(x, lane, [&](const auto& v, i64) { sum.add(sum_of_terms(v, [](T e) { return widen(e); })); });
  return sum.all();
}
