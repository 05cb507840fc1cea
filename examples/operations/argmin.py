"""Where the minimum of a row is: an operation whose result is an index, which no rounding excuses.

kernelzoo verify mine/argmin/torch --module examples/operations/argmin.py
kernelzoo compare mine/argmin/{triton,cuda_c} --module examples/operations/argmin.py --shape 4096x1024
"""

import functools

import torch

import kernelzoo
from kernelzoo.launch import Launch
from kernelzoo.operations import Sample

DTYPES = [d for d in kernelzoo.FLOATS + kernelzoo.INTEGERS if d != "bool"]
"""Those of torch.argmin."""


@kernelzoo.operation(dtypes=DTYPES)
class argmin:
    """The place of the least element along one axis, as ``torch.argmin``: of equal ones the first.

    A NaN counts as less than everything, so that the first NaN is what is found. -0.0 equals 0.0.
    """

    x = kernelzoo.Input("outer n inner")
    out = kernelzoo.Output("outer inner", dtype="int64")
    decisive = -20.0

    def reference(x):
        # The minimum of a row with a NaN is NaN, which equals nothing: then only the NaNs are found.
        found = (x == x.amin(1, keepdim=True)) | (x != x)
        places = torch.arange(x.size(1), device=x.device)[:, None]
        return places.where(found, x.size(1)).amin(1)

    def samples():
        return tuple(Sample(f"{d}-neighbours", (8, 300), functools.partial(neighbours, d)) for d in DTYPES)


def neighbours(dtype: str) -> torch.Tensor:
    """Rows of one value but for the next lower one, somewhere: narrower arithmetic takes them for equal."""
    kind = getattr(torch, dtype)
    one, step = (1.0, torch.finfo(kind).eps / 2) if kind.is_floating_point else (torch.iinfo(kind).max, 1)
    x = torch.full((8, 300), one, dtype=kind)
    places = torch.randint(300, (8, 1), generator=torch.Generator().manual_seed(0))
    return x.scatter(1, places, x - step)


@kernelzoo.register("mine", "argmin", "torch")
def in_torch(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Plain calls of torch."""

    def launch() -> None:
        out.copy_(torch.argmin(x, 1))

    return launch


def need_gpu(id: str, x: torch.Tensor) -> None:
    if not x.is_cuda:
        raise kernelzoo.UnsupportedProblemError(id, f"it is compiled for a GPU, and x is on the {x.device}")


try:
    import triton
    import triton.language as tl
except ImportError:  # there is no variant in Triton, then
    pass
else:

    @triton.jit
    def lesser(a, i, b, j):
        """The lesser of two elements, and its place: a NaN is less than all others, and of equal ones the first is."""
        equal = (a == b) | ((a != a) & (b != b))
        less = (a < b) | ((a != a) & (b == b)) | (equal & (i < j))
        return tl.where(less, a, b), tl.where(less, i, j)

    @triton.jit
    def argmin_kernel(
        x, out, inner, n, x_outer, x_n, x_inner, out_outer, out_inner, WIDE: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)  # offsets need 64 bits
        x += (row // inner) * x_outer + (row % inner) * x_inner
        lane = tl.arange(0, BLOCK).to(tl.int64)
        # Lanes past the end read the last element again: it is the same, at the same place.
        places = tl.minimum(lane, n - 1)
        least = tl.load(x + places * x_n).to(WIDE)
        for start in range(BLOCK, n, BLOCK):
            cols = tl.minimum(start + lane, n - 1)
            least, places = lesser(least, places, tl.load(x + cols * x_n).to(WIDE), cols)
        least, place = tl.reduce((least, places), 0, lesser)
        tl.store(out + (row // inner) * out_outer + (row % inner) * out_inner, place)

    @kernelzoo.register("mine", "argmin", "triton")
    def in_triton(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """A program to each row, and in each lane the least element so far."""
        if not triton.knobs.runtime.interpret:
            need_gpu("mine/argmin/triton", x)
        outer, n, inner = x.shape
        name = str(x.dtype).removeprefix("torch.")
        wide = tl.float32 if name in ("float16", "bfloat16") else getattr(tl, name)
        block = min(triton.next_power_of_2(n), 1024)

        def launch() -> None:
            argmin_kernel[(outer * inner,)](x, out, inner, n, *x.stride(), *out.stride(), WIDE=wide, BLOCK=block)

        return launch


THREADS = 256

CUDA_C = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef long long i64;

// ELEMENT is the dtype of x, WIDE that in which elements are compared.
// Whether element a at i comes before b at j: a NaN is less than all others, and of equal ones the first is.
__device__ bool comes_first(WIDE a, i64 i, WIDE b, i64 j) {
  const bool a_is_nan = a != a, b_is_nan = b != b;
  if (a_is_nan != b_is_nan) return a_is_nan;
  return a < b || ((a == b || a_is_nan) && i < j);
}

extern "C" __global__ void argmin(const ELEMENT* x, i64* out, i64 inner, i64 n, i64 x_outer, i64 x_n, i64 x_inner,
                                  i64 out_outer, i64 out_inner) {
  __shared__ WIDE values[THREADS];
  __shared__ i64 places[THREADS];
  const i64 row = blockIdx.x;
  const int thread = threadIdx.x;
  x += row / inner * x_outer + row % inner * x_inner;

  i64 place = thread < n ? thread : n - 1;  // threads past the end have the last element too
  WIDE least = x[place * x_n];
  for (i64 i = thread + THREADS; i < n; i += THREADS) {
    const WIDE value = x[i * x_n];
    if (comes_first(value, i, least, place)) least = value, place = i;
  }
  values[thread] = least;
  places[thread] = place;
  for (int half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    const int other = thread + half;
    if (thread < half && comes_first(values[other], places[other], values[thread], places[thread])) {
      values[thread] = values[other];
      places[thread] = places[other];
    }
  }
  if (thread == 0) out[row / inner * out_outer + row % inner * out_inner] = places[0];
}
"""

# In memory, and as they are compared.
C_TYPES = {
    "float16": ("__half", "float"),
    "bfloat16": ("__nv_bfloat16", "float"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "uint8": ("unsigned char", "int"),
    "int8": ("signed char", "int"),
    "int16": ("short", "int"),
    "int32": ("int", "int"),
    "int64": ("long long", "long long"),
}

try:
    import cupy
except ImportError:  # there is no variant in CUDA C, then
    pass
else:

    @functools.cache
    def compiled(dtype: str) -> cupy.RawKernel:
        kind, wide = C_TYPES[dtype]
        return cupy.RawKernel(CUDA_C, "argmin", options=(f"-DELEMENT={kind}", f"-DWIDE={wide}", f"-DTHREADS={THREADS}"))

    @kernelzoo.register("mine", "argmin", "cuda_c")
    def in_cuda_c(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """A block of threads to each row, and in each thread the least element so far."""
        need_gpu("mine/argmin/cuda_c", x)
        outer, n, inner = x.shape
        kernel = compiled(str(x.dtype).removeprefix("torch."))
        numbers = (inner, n, *x.stride(), *out.stride())

        def launch() -> None:
            stream = torch.cuda.current_stream(x.device)
            with cupy.cuda.Stream.from_external(stream) if stream.cuda_stream else cupy.cuda.Stream.null:
                kernel((outer * inner,), (THREADS,), (x.data_ptr(), out.data_ptr(), *numbers))

        return launch
