// Pairs merged: a warp to a row, whose lanes take its parts in turn.

#include "../several.cuh"
#include "../softmax/pairs.cuh"

template <class T>
__global__ void __launch_bounds__(128) rows(const Several<2> given) {
  const Several<2> p = begin(given);
  const i64 r = block_index() * 4 + threadIdx.x / 32;
  if (r >= p.rows) return;
  i64 outer, inner;
  number(p, r, outer, inner);
  const T* const maximum = (const T*)p.x + outer * p.x_outer + inner * p.x_inner;
  const T* const total = (const T*)p.other[0] + outer * p.strides[0].outer + inner * p.strides[0].inner;
  const int lane = threadIdx.x & 31;
  T m = lowest<T>();
  for (i64 k = lane; k < p.n; k += 32) m = larger(m, maximum[k * p.x_n]);
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) m = larger(m, exchange(m, mask));
  const T shift = zero_if_empty(m);
  T sum = 0, lost = 0;  // what each addition rounds off, added up beside it (D. E. Knuth's two-sum)
  for (i64 k = lane; k < p.n; k += 32) {
    // By the exponential of half the distance, twice: of the whole it may be no normal number where the term is one.
    const T half = exponential((maximum[k * p.x_n] - shift) * T(0.5)), term = total[k * p.strides[0].n] * half * half;
    const T next = sum + term, added = next - sum;
    lost += (sum - (next - added)) + (term - added);
    sum = next;
  }
  sum = sum - sum == 0 ? sum + lost : sum;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) sum += exchange(sum, mask);
  if (lane == 0) {
    ((T*)p.other[1])[outer * p.strides[1].outer + inner * p.strides[1].inner] = sum == sum ? m : sum;
    ((T*)p.out)[outer * p.out_outer + inner * p.out_inner] = sum;
  }
}
