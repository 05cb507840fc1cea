// A problem of several tensors: as struct Problem of row.cuh, with others between x and out.
#ifndef KERNELZOO_SEVERAL_CUH
#define KERNELZOO_SEVERAL_CUH

#include "row.cuh"

struct Strides { i64 outer, n, inner; };

// As Problem, with OTHERS tensors between x and out: (outer, n, inner), or (outer, inner), whose n is 0.
template <int OTHERS>
struct Several {
  const void* x;
  const void* other[OTHERS];
  void* out;
  i64 rows, n, inner;
  i64 x_outer, x_n, x_inner;
  i64 out_outer, out_n, out_inner;
  double inner_inverse;
  Strides strides[OTHERS];
};

template <int OTHERS>
__device__ inline Several<OTHERS> begin(const Several<OTHERS>& given) {
  static_assert(OTHERS <= 2, "all addresses pass through the wait");
  Several<OTHERS> p = given;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (OTHERS == 1) {
    asm volatile("griddepcontrol.wait;" : "+l"(p.x), "+l"(p.other[0]), "+l"(p.out) :: "memory");
  } else {
    asm volatile("griddepcontrol.wait;" : "+l"(p.x), "+l"(p.other[0]), "+l"(p.other[1]), "+l"(p.out) :: "memory");
  }
#endif
  return p;
}

// Row r is (r / inner, r % inner): see place() of row.cuh.
template <int OTHERS>
__device__ inline void number(const Several<OTHERS>& p, i64 r, i64& outer, i64& inner) {
  outer = r, inner = 0;
  if (p.inner != 1) {
    outer = (i64)((double)r * p.inner_inverse);
    inner = r - outer * p.inner;
    if (inner < 0) outer -= 1, inner += p.inner;
    if (inner >= p.inner) outer += 1, inner -= p.inner;
  }
}

#endif
