// Atomic minima, for both atomic forms: what blocks send, where to, and the kernels before and after.
#pragma once
#include "minima.cuh"

// Target is a type that has atomics: dtypes below 32 bits use a 32-bit workspace. Bits of non-negative floats are
// ordered as signed integers, those of negative ones in reverse as unsigned. All ones, a NaN, win both comparisons.

template <class T> struct TargetOf { using type = int; };
template <> struct TargetOf<float> { using type = float; };
template <> struct TargetOf<float16> { using type = float; };
template <> struct TargetOf<bfloat16> { using type = float; };
template <> struct TargetOf<double> { using type = double; };
template <> struct TargetOf<i64> { using type = i64; };
template <class T> using Target = typename TargetOf<T>::type;

// Convert the lowest element of a folded word to the target's bits, and back. Both conversions are exact.
template <class T> constexpr bool IS_HALF = sizeof(T) == 2 && sizeof(Target<T>) == 4;
template <> constexpr bool IS_HALF<short> = false;

template <class T>
__device__ inline Word<T> as_target(Word<T> w) {
  if constexpr (IS_HALF<T>) return __float_as_uint(widen(T{(u16)w}));
  else return sizeof(T) < 4 ? (Word<T>)(int)(T)w : w;
}
template <class T>
__device__ inline void from_target(u32 bits, T* out) {
  if constexpr (IS_HALF<T>) narrow(__uint_as_float(bits), *out);
  else *out = (T)bits;
}

// The minimum in float or double, computed from the bits.
__device__ int signed_of(u32);
__device__ i64 signed_of(u64);
template <class F>
__device__ inline void atomic_minimum(F* at, Word<F> bits) {
  using Signed = decltype(signed_of(Word<F>{}));
  if ((bits & ~(Word<F>)0 >> 1) > identity(F{})) bits = ~(Word<F>)0;
  if ((Signed)bits < 0) atomicMax((Word<F>*)at, bits);
  else atomicMin((Signed*)at, (Signed)bits);
}
__device__ inline void atomic_minimum(int* at, u32 bits) { atomicMin(at, (int)bits); }
__device__ inline void atomic_minimum(i64* at, u64 bits) { atomicMin(at, (i64)bits); }

// The target of row r: in the workspace for dtypes below 32 bits, else in the output.
template <class T>
__device__ inline Target<T>* target_address(const Problem& p, Target<T>* workspace, i64 r) {
  if constexpr (sizeof(T) < 4) return workspace + r;
  else return (Target<T>*)Row<T, 1>(p, r).out;
}

// The first kernel of both forms: it fills the targets with the identity.
template <class T>
__global__ void __launch_bounds__(256) fill(const Problem given, Target<T>* workspace) {
  const Problem p = wait_for_previous_launch(given);
  const i64 r = block_index() * 256 + threadIdx.x;
  if (r < p.rows) *(Word<T>*)target_address<T>(p, workspace, r) = identity(Target<T>{});
}

// The last kernel, for dtypes below 32 bits: it converts the targets and writes the output.
template <class T>
__global__ void __launch_bounds__(256) narrow_output(const Problem given, const Target<T>* workspace) {
  const Problem p = wait_for_previous_launch(given);
  const i64 r = block_index() * 256 + threadIdx.x;
  if (r >= p.rows) return;
  from_target(*(const u32*)(workspace + r), Row<T, 1>(p, r).out);
}

// A warp's minimum over `block_n` packs of a row, from pack `from` on, folded to one element. Block 0 adds the edges.
template <int ITEMS, class T, int V>
__device__ inline Word<T> min_of_columns(const Row<T, V>& row, i64 from, i64 block_n, int lane) {
  const i64 to = from + block_n < row.packs ? from + block_n : row.packs;
  Word<T> w = identity_word<T>();
  if (blockIdx.x == 0) w = min_of_edges(row, lane, 32);
  for (i64 j = from + lane; j < to; j += ITEMS * 32) w = minimum(w, min_of_batch<ITEMS>(row, j, to, 32), T{});
  return fold<T>(warp_min<T, 32>(w));
}
