"""Cross entropy of each row: an operation with labels, a scalar that is no weight, and two outputs.

kernelzoo verify mine/cross_entropy/torch --module examples/operations/cross_entropy.py
kernelzoo compare mine/cross_entropy/{triton,cuda_c} --module examples/operations/cross_entropy.py --shape 4096x1024
"""

import functools
import math

import torch

import kernelzoo
from kernelzoo.launch import Launch


@kernelzoo.operation(dtypes=kernelzoo.FLOATS)
class cross_entropy:
    """``loss = lse - logits[label]`` of each row, and ``lse = log(sum(exp(logits)))``, which a backward pass needs.

    A row whose label is ``ignore_index`` has the loss 0, whatever its logits are. Every other label is one of a row's
    places. Nothing is reduced over rows. An offset common to a row must not make the loss less accurate.
    """

    logits = kernelzoo.Input("outer n inner")
    labels = kernelzoo.Input("outer inner", dtype="int64", low=0, high="n", also=("ignore_index",))
    ignore_index = kernelzoo.Scalar(-100, also=(0,))
    loss = kernelzoo.Output("outer inner")
    lse = kernelzoo.Output("outer inner")

    def reference(logits, labels, ignore_index):
        top = finite(logits.amax(1, keepdim=True))
        log_sum = (logits - top).exp().sum(1).log()
        ignored = labels == ignore_index
        picked = logits.gather(1, labels.masked_fill(ignored, 0)[:, None])
        return ((top - picked)[:, 0] + log_sum).masked_fill(ignored, 0), top[:, 0] + log_sum

    def error(ref, logits, labels, ignore_index, n, unit):
        # As that of the sum's logarithm (see logsumexp.py), and the last additions round their results. The loss is
        # (maximum - picked) + logarithm: as large as its parts, which have the same sign. That of an ignored row is 0.
        loss, lse = ref
        top = logits.amax(1, keepdim=True)
        depth = (top - logits).clamp(0, 1100).nan_to_num(0)
        weights = (-depth).exp()
        total = weights.sum(1)
        mean_depth = (weights * depth).sum(1) / total
        allowed = 16 + 4 * mean_depth + math.sqrt(n) / 2 + 2 * total.log()
        of_loss = (unit * (allowed + 2 * loss.abs())).masked_fill(labels == ignore_index, 0)
        return of_loss, unit * (allowed + lse.abs())


def finite(top: torch.Tensor) -> torch.Tensor:
    """What is subtracted from a row with that maximum: 0 if it is no number, since inf - inf would be NaN."""
    return top.where(top.isfinite(), 0)


@kernelzoo.register("mine", "cross_entropy", "torch")
def in_torch(
    logits: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor, ignore_index: int
) -> Launch:
    """Plain calls of torch."""
    wide = torch.promote_types(logits.dtype, torch.float32)

    def launch() -> None:
        values = logits.to(wide)
        top = finite(values.amax(1, keepdim=True))
        log_sum = (values - top).exp().sum(1).log()
        ignored = labels == ignore_index
        picked = values.gather(1, labels.masked_fill(ignored, 0)[:, None])
        loss.copy_(((top - picked)[:, 0] + log_sum).masked_fill(ignored, 0))
        lse.copy_(top[:, 0] + log_sum)

    return launch


def need_gpu(id: str, x: torch.Tensor) -> None:
    if not x.is_cuda:
        raise kernelzoo.UnsupportedProblemError(id, f"it is compiled for a GPU, and its logits are on the {x.device}")


try:
    import triton
    import triton.language as tl
except ImportError:  # there is no variant in Triton, then
    pass
else:

    @triton.jit
    def cross_entropy_kernel(
        x, labels, loss, lse, ignore_index, inner, n, x_outer, x_n, x_inner, labels_outer, labels_inner,
        loss_outer, loss_inner, lse_outer, lse_inner, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)  # offsets need 64 bits
        outer_at, inner_at = row // inner, row % inner
        x += outer_at * x_outer + inner_at * x_inner
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
        log_sum = tl.log(tl.sum(sums, 0))
        label = tl.load(labels + outer_at * labels_outer + inner_at * labels_inner)
        counts = label != ignore_index
        picked = tl.load(x + label * x_n, counts, other=0).to(WIDE)
        result = tl.where(counts, (top - picked) + log_sum, 0.0)
        tl.store(loss + outer_at * loss_outer + inner_at * loss_inner, result.to(loss.dtype.element_ty))
        tl.store(lse + outer_at * lse_outer + inner_at * lse_inner, (top + log_sum).to(lse.dtype.element_ty))

    @kernelzoo.register("mine", "cross_entropy", "triton")
    def in_triton(
        logits: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor, ignore_index: int
    ) -> Launch:
        """A program to each row, which it reads twice."""
        if not triton.knobs.runtime.interpret:
            need_gpu("mine/cross_entropy/triton", logits)
        outer, n, inner = logits.shape
        wide = tl.float64 if logits.dtype == torch.float64 else tl.float32
        block = min(triton.next_power_of_2(n), 1024)

        def launch() -> None:
            tensors = (logits, labels, loss, lse)
            strides = (stride for tensor in tensors for stride in tensor.stride())
            cross_entropy_kernel[(outer * inner,)](*tensors, ignore_index, inner, n, *strides, WIDE=wide, BLOCK=block)

        return launch


THREADS = 256

CUDA_C = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef long long i64;

// ELEMENT is the dtype of the logits and of the outputs, WIDE that of the arithmetic.
extern "C" __global__ void cross_entropy(const ELEMENT* x, const i64* labels, ELEMENT* loss, ELEMENT* lse,
                                         i64 ignore_index, i64 inner, i64 n, i64 x_outer, i64 x_n, i64 x_inner,
                                         i64 labels_outer, i64 labels_inner, i64 loss_outer, i64 loss_inner,
                                         i64 lse_outer, i64 lse_inner) {
  __shared__ WIDE shared[THREADS];
  const i64 outer_at = blockIdx.x / inner, inner_at = blockIdx.x % inner;
  const int thread = threadIdx.x;
  x += outer_at * x_outer + inner_at * x_inner;

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
  if (thread) return;

  const WIDE log_sum = log(shared[0]);
  const i64 label = labels[outer_at * labels_outer + inner_at * labels_inner];
  WIDE result = 0;
  if (label != ignore_index) result = (top - (WIDE)x[label * x_n]) + log_sum;
  loss[outer_at * loss_outer + inner_at * loss_inner] = result;
  lse[outer_at * lse_outer + inner_at * lse_inner] = top + log_sum;
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
            CUDA_C, "cross_entropy", options=(f"-DELEMENT={C_TYPES[dtype]}", f"-DWIDE={wide}", f"-DTHREADS={THREADS}")
        )

    @kernelzoo.register("mine", "cross_entropy", "cuda_c")
    def in_cuda_c(
        logits: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, lse: torch.Tensor, ignore_index: int
    ) -> Launch:
        """A block of threads to each row, which it reads twice."""
        need_gpu("mine/cross_entropy/cuda_c", logits)
        outer, n, inner = logits.shape
        kernel = compiled(str(logits.dtype).removeprefix("torch."))
        tensors = (logits, labels, loss, lse)
        numbers = (ignore_index, inner, n, *(stride for tensor in tensors for stride in tensor.stride()))

        def launch() -> None:
            stream = torch.cuda.current_stream(logits.device)
            with cupy.cuda.Stream.from_external(stream) if stream.cuda_stream else cupy.cuda.Stream.null:
                kernel((outer * inner,), (THREADS,), (*(tensor.data_ptr() for tensor in tensors), *numbers))

        return launch
