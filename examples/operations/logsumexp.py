"""The logarithm of a sum of exponentials: a result that may cancel to almost nothing, and infinities with rules.

kernelzoo verify mine/logsumexp/torch --module examples/operations/logsumexp.py
kernelzoo compare mine/logsumexp/{triton,cuda_c} --module examples/operations/logsumexp.py --shape 4096x1024
"""

import functools
import math

import torch

import kernelzoo
from kernelzoo.launch import Launch
from kernelzoo.operations import Sample


@kernelzoo.operation(dtypes=kernelzoo.FLOATS)
class logsumexp:
    """``log(sum(exp(x)))`` along one axis, as ``torch.logsumexp``, without overflow.

    A NaN in a row gives NaN; else +inf gives +inf; a row of -inf alone gives -inf.
    """

    x = kernelzoo.Input("outer n inner")
    out = kernelzoo.Output("outer inner")

    def reference(x):
        top = finite(x.amax(1, keepdim=True))
        return (x - top).exp().sum(1).log() + top[:, 0]

    def error(ref, x, n, unit):
        # The result is the maximum plus the logarithm of a sum of exponentials of x - maximum. A relative error of
        # that sum is an absolute one of its logarithm, and stays where the two cancel: the bound is not relative to
        # the result. Each exponential brings its argument's error, which grows with its depth below the maximum, in
        # the measure of its weight; the sum brings sqrt(n) / 2 roundings; the last addition rounds the result.
        top = x.amax(1, keepdim=True)
        depth = (top - x).clamp(0, 1100).nan_to_num(0)
        weights = (-depth).exp()
        total = weights.sum(1)
        mean_depth = (weights * depth).sum(1) / total
        allowed = 16 + 4 * mean_depth + math.sqrt(n) / 2 + 2 * total.log() + ref.abs()
        return unit * allowed

    def samples():
        return tuple(Sample(f"{d}-cancels", (8, 300), functools.partial(cancelling, d)) for d in kernelzoo.FLOATS)


def cancelling(dtype: str) -> torch.Tensor:
    """Rows whose maximum and logarithm almost cancel: results of about 1, 1/8, 1/64, ..."""
    noise = torch.randn(8, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = 8.0 ** -torch.arange(8.0)[:, None]
    return (noise - torch.logsumexp(noise, 1, keepdim=True) + wanted).to(getattr(torch, dtype))


def finite(top: torch.Tensor) -> torch.Tensor:
    """What is subtracted from a row with that maximum: 0 if it is no number, since inf - inf would be NaN."""
    return top.where(top.isfinite(), 0)


@kernelzoo.register("mine", "logsumexp", "torch")
def in_torch(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Plain calls of torch."""
    wide = torch.promote_types(x.dtype, torch.float32)

    def launch() -> None:
        values = x.to(wide)
        top = finite(values.amax(1, keepdim=True))
        out.copy_((values - top).exp().sum(1).log() + top[:, 0])

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
    def logsumexp_kernel(
        x, out, inner, n, x_outer, x_n, x_inner, out_outer, out_inner, WIDE: tl.constexpr, BLOCK: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)  # offsets need 64 bits
        x += (row // inner) * x_outer + (row % inner) * x_inner
        lane = tl.arange(0, BLOCK).to(tl.int64)
        tops = tl.full((BLOCK,), float("-inf"), WIDE)
        for start in range(0, n, BLOCK):
            cols = start + lane
            tops = tl.maximum(tops, tl.load(x + cols * x_n, cols < n, other=float("-inf")).to(WIDE))
        top = tl.max(tops, 0)  # a NaN may be lost here: it comes back in the sum
        top = tl.where(tl.abs(top) < float("inf"), top, 0.0)  # inf - inf would be NaN
        sums = tl.zeros((BLOCK,), WIDE)
        for start in range(0, n, BLOCK):
            cols = start + lane
            sums += tl.exp(tl.load(x + cols * x_n, cols < n, other=float("-inf")).to(WIDE) - top)
        result = top + tl.log(tl.sum(sums, 0))
        tl.store(out + (row // inner) * out_outer + (row % inner) * out_inner, result.to(out.dtype.element_ty))

    @kernelzoo.register("mine", "logsumexp", "triton")
    def in_triton(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """A program to each row, which it reads twice."""
        if not triton.knobs.runtime.interpret:
            need_gpu("mine/logsumexp/triton", x)
        outer, n, inner = x.shape
        wide = tl.float64 if x.dtype == torch.float64 else tl.float32
        block = min(triton.next_power_of_2(n), 1024)

        def launch() -> None:
            logsumexp_kernel[(outer * inner,)](x, out, inner, n, *x.stride(), *out.stride(), WIDE=wide, BLOCK=block)

        return launch


THREADS = 256

CUDA_C = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef long long i64;

// ELEMENT is the dtype of the tensors, WIDE that of the arithmetic.
extern "C" __global__ void logsumexp(const ELEMENT* x, ELEMENT* out, i64 inner, i64 n, i64 x_outer, i64 x_n,
                                     i64 x_inner, i64 out_outer, i64 out_inner) {
  __shared__ WIDE shared[THREADS];
  const i64 row = blockIdx.x;
  const int thread = threadIdx.x;
  x += row / inner * x_outer + row % inner * x_inner;

  WIDE top = x[0];
  for (i64 i = thread; i < n; i += THREADS) {
    const WIDE value = x[i * x_n];
    if (value > top) top = value;
  }
  shared[thread] = top;
  for (int half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (thread < half && shared[thread + half] > shared[thread]) shared[thread] = shared[thread + half];
  }
  __syncthreads();
  top = shared[0];  // a NaN may be lost here: it comes back in the sum
  if (!isfinite(top)) top = 0;  // inf - inf would be NaN
  __syncthreads();

  WIDE sum = 0;
  for (i64 i = thread; i < n; i += THREADS) sum += exp((WIDE)x[i * x_n] - top);
  shared[thread] = sum;
  for (int half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (thread < half) shared[thread] += shared[thread + half];
  }
  if (thread == 0) out[row / inner * out_outer + row % inner * out_inner] = top + log(shared[0]);
}
"""

C_TYPES = {"float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float", "float64": "double"}

try:
    import cupy
except ImportError:  # there is no variant in CUDA C, then
    pass
else:

    @functools.cache
    def compiled(dtype: str) -> cupy.RawKernel:
        wide = "double" if dtype == "float64" else "float"
        return cupy.RawKernel(
            CUDA_C, "logsumexp", options=(f"-DELEMENT={C_TYPES[dtype]}", f"-DWIDE={wide}", f"-DTHREADS={THREADS}")
        )

    @kernelzoo.register("mine", "logsumexp", "cuda_c")
    def in_cuda_c(x: torch.Tensor, out: torch.Tensor) -> Launch:
        """A block of threads to each row, which it reads twice."""
        need_gpu("mine/logsumexp/cuda_c", x)
        outer, n, inner = x.shape
        kernel = compiled(str(x.dtype).removeprefix("torch."))
        numbers = (inner, n, *x.stride(), *out.stride())

        def launch() -> None:
            stream = torch.cuda.current_stream(x.device)
            with cupy.cuda.Stream.from_external(stream) if stream.cuda_stream else cupy.cuda.Stream.null:
                kernel((outer * inner,), (THREADS,), (x.data_ptr(), out.data_ptr(), *numbers))

        return launch
