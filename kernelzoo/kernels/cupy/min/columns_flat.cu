// Columns of few rows: all of memory as one piece.
//
// `active` threads, a multiple of the rows, walk over it pack by pack, so that each place of a thread's pack stays with
// one row all the way; the places meet at the end, and blocks as in split_arrival.

#include "arrival.cuh"
#include "minima.cuh"

template <class T, int ITEMS>
__global__ void __launch_bounds__(512, 2) columns_flat(const Problem given, Word<T>* partial, u32* arrived) {
  const Problem p = begin(given);
  constexpr int V = 16 / sizeof(T), WORDS = 16 / sizeof(Word<T>);
  __shared__ Bytes16 places[512];
  __shared__ Word<T> slots[512];
  const int rows = (int)p.inner, groups = blockDim.x / rows, active = groups * rows, row = threadIdx.x % rows;
  const int group = threadIdx.x / rows;
  const i64 total = p.n * rows, packs = total / V, turns = (packs + active - 1) / active;
  const i64 share = (turns + gridDim.x - 1) / gridDim.x, from = blockIdx.x * share * active + threadIdx.x;
  const i64 end = (blockIdx.x + 1) * share * active, to = end < packs ? end : packs;
  const T* x = (const T*)p.x;

  Word<T> w[WORDS];
#pragma unroll
  for (int k = 0; k < WORDS; ++k) w[k] = nothing<T>();
  if (group < groups) {
    for (i64 j = from; j < to; j += ITEMS * active) {
      Bytes16 raw[ITEMS];
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
        const i64 at = j + i * active;
        raw[i] = load_once(x + (at < to ? at : j) * V);  // past the end, a pack a second time
      }
#pragma unroll
      for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
        for (int k = 0; k < WORDS; ++k) w[k] = least(w[k], word_of<T>(raw[i], k), T{});
      }
    }
#pragma unroll
    for (int k = 0; k < WORDS; ++k) ((Word<T>*)places)[threadIdx.x * WORDS + k] = w[k];
  }
  __syncthreads();
  // `group` takes every groups-th of its row's places, then of its row's blocks.
  const T* flat = (const T*)places;
  Word<T> least_here = nothing<T>();
  if (group < groups) {
    for (int k = group; k < groups * V; k += groups) least_here = least(least_here, spread(flat + row + k * rows), T{});
    if (blockIdx.x == 0) {
      for (i64 e = packs * V; e < total; ++e) {
        if (e % rows == row) least_here = least(least_here, spread(x + e), T{});
      }
    }
  }
  const auto meet_groups = [&] {
    __syncthreads();
    slots[threadIdx.x] = least_here;
    __syncthreads();
    for (int left = groups; left > 1;) {  // the upper half of a row's groups, each with one of the lower
      const int half = (left + 1) / 2;
      if (group + half < left) {
        slots[threadIdx.x] = least(slots[threadIdx.x], slots[threadIdx.x + half * rows], T{});
      }
      __syncthreads();
      left = half;
    }
    least_here = slots[threadIdx.x];
  };
  meet_groups();
  if (threadIdx.x < rows) partial[(i64)blockIdx.x * rows + threadIdx.x] = least_here;
  if (!arrives_last(arrived, gridDim.x)) return;
  least_here = nothing<T>();
  if (group < groups) {
#pragma unroll 8
    for (int k = group; k < gridDim.x; k += groups) least_here = least(least_here, partial[(i64)k * rows + row], T{});
  }
  meet_groups();
  if (threadIdx.x < rows) put((T*)p.out + threadIdx.x * p.out_inner, least_here);
}
