"""L2 norm: an operation of one's own, and one kernel for it in each of three languages.

kernelzoo verify mine/l2_normalize/torch --module examples/operations/l2_normalize.py
kernelzoo compare mine/l2_normalize/{triton,cuda_c} --module examples/operations/l2_normalize.py --shape 4096x1024
"""

import functools
import math

import torch

import kernelzoo
from kernelzoo.launch import Launch

LARGEST = torch.finfo(torch.float32).max


@kernelzoo.operation(dtypes=kernelzoo.FLOATS)
class l2_normalize:
    """``x / sqrt(sum(x * x) + eps) * weight`` along one axis."""

    x = kernelzoo.Input("outer n inner")
    weight = kernelzoo.Input("n")
    eps = kernelzoo.Scalar(1e-6, also=(0.5,))
    out = kernelzoo.Output("outer n inner")
    # The squares of a row must not overflow as they are added up, in float32 (of float64, in float64).
    domain = {"x": lambda dtype, n: math.sqrt(max(dtype.max, LARGEST) / n)}

    def reference(x, weight, eps):
        return x / (x.square().sum(1, keepdim=True) + eps).sqrt() * weight[:, None]

    def error(ref, x, weight, eps, n, unit, tiny):
        # Some sqrt(n) roundings of the sum, half of which the root takes away, and a few others. What is subnormal may
        # count as zero: an input, or a product on the way, which the next factor makes larger.
        root = (x.square().sum(1, keepdim=True) + eps).sqrt()
        lost = tiny * ((1 + weight.abs()[:, None]) * (1 + 1 / root) + math.sqrt(n))
        return unit * (8 + math.sqrt(n)) * ref.abs() + lost


@kernelzoo.register("mine", "l2_normalize", "torch")
def in_torch(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Plain calls of torch."""
    wide = torch.promote_types(x.dtype, torch.float32)

    def launch() -> None:
        values = x.to(wide)
        scale = torch.rsqrt(values.square().sum(1, keepdim=True) + eps)
        out.copy_(values * scale * weight.to(wide)[:, None])

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
    def l2_normalize_kernel(
        x, weight, out, inner, n, x_outer, x_n, x_inner, weight_n, out_outer, out_n, out_inner,
        EPS: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)  # offsets need 64 bits
        x += (row // inner) * x_outer + (row % inner) * x_inner
        out += (row // inner) * out_outer + (row % inner) * out_inner
        lane = tl.arange(0, BLOCK).to(tl.int64)
        squares = tl.zeros((BLOCK,), WIDE)
        for start in range(0, n, BLOCK):
            cols = start + lane
            values = tl.load(x + cols * x_n, cols < n, other=0).to(WIDE)
            squares += values * values
        scale = 1 / tl.sqrt(tl.sum(squares, 0) + EPS)
        for start in range(0, n, BLOCK):
            cols = start + lane
            values = tl.load(x + cols * x_n, cols < n, other=0).to(WIDE)
            weights = tl.load(weight + cols * weight_n, cols < n, other=0).to(WIDE)
            tl.store(out + cols * out_n, (values * scale * weights).to(out.dtype.element_ty), cols < n)

    @kernelzoo.register("mine", "l2_normalize", "triton")
    def in_triton(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
        """A program to each row, which it reads twice."""
        if not triton.knobs.runtime.interpret:
            need_gpu("mine/l2_normalize/triton", x)
        outer, n, inner = x.shape
        wide = tl.float64 if x.dtype == torch.float64 else tl.float32
        block = min(triton.next_power_of_2(n), 1024)

        def launch() -> None:
            strides = (*x.stride(), *weight.stride(), *out.stride())
            l2_normalize_kernel[(outer * inner,)](x, weight, out, inner, n, *strides, EPS=eps, WIDE=wide, BLOCK=block)

        return launch


THREADS = 256

CUDA_C = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef long long i64;

// ELEMENT is the dtype of the tensors, WIDE that of the arithmetic.
extern "C" __global__ void l2_normalize(const ELEMENT* x, const ELEMENT* weight, ELEMENT* out, double eps, i64 inner,
                                    i64 n, i64 x_outer, i64 x_n, i64 x_inner, i64 weight_n, i64 out_outer, i64 out_n,
                                    i64 out_inner) {
  __shared__ WIDE sums[THREADS];
  const i64 row = blockIdx.x;
  const int thread = threadIdx.x;
  x += row / inner * x_outer + row % inner * x_inner;
  out += row / inner * out_outer + row % inner * out_inner;

  WIDE sum = 0;
  for (i64 i = thread; i < n; i += THREADS) {
    const WIDE value = x[i * x_n];
    sum += value * value;
  }
  sums[thread] = sum;
  for (int half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  __syncthreads();

  const WIDE scale = 1 / sqrt(sums[0] + (WIDE)eps);
  for (i64 i = thread; i < n; i += THREADS) {
    out[i * out_n] = (WIDE)x[i * x_n] * scale * (WIDE)weight[i * weight_n];
  }
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
            CUDA_C, "l2_normalize", options=(f"-DELEMENT={C_TYPES[dtype]}", f"-DWIDE={wide}", f"-DTHREADS={THREADS}")
        )

    @kernelzoo.register("mine", "l2_normalize", "cuda_c")
    def in_cuda_c(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
        """A block of threads to each row, which it reads twice."""
        need_gpu("mine/l2_normalize/cuda_c", x)
        outer, n, inner = x.shape
        kernel = compiled(str(x.dtype).removeprefix("torch."))
        numbers = (float(eps), inner, n, *x.stride(), *weight.stride(), *out.stride())

        def launch() -> None:
            stream = torch.cuda.current_stream(x.device)
            with cupy.cuda.Stream.from_external(stream) if stream.cuda_stream else cupy.cuda.Stream.null:
                pointers = (x.data_ptr(), weight.data_ptr(), out.data_ptr())
                kernel((outer * inner,), (THREADS,), pointers + numbers)

        return launch
