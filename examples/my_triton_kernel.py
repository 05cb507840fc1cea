"""A Triton kernel of one's own, for a GPU.

kernelzoo verify --module examples/my_triton_kernel.py --backend mine
kernelzoo compare mine/softmax/one_row triton/softmax/auto --module examples/my_triton_kernel.py --shape 4096x1024
"""

import torch
import triton
import triton.language as tl

import kernelzoo
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.launch import Launch

LONGEST = 32768
"""Elements of a row that one program holds in its registers."""


@triton.jit
def one_row_kernel(x, out, inner, n, x_outer, x_n, x_inner, out_outer, out_n, out_inner, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # 64 bits, or offsets overflow in tensors past 2^31 elements
    cols = tl.arange(0, BLOCK).to(tl.int64)
    here = x + (row // inner) * x_outer + (row % inner) * x_inner + cols * x_n
    there = out + (row // inner) * out_outer + (row % inner) * out_inner + cols * out_n
    values = tl.load(here, cols < n, other=float("-inf"))
    values = values.to(tl.float64 if values.dtype == tl.float64 else tl.float32)
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(there, (weights / tl.sum(weights, 0)).to(out.dtype.element_ty), cols < n)


@kernelzoo.register("mine", "softmax", "one_row")
def one_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Softmax of a row to a program, held in registers."""
    outer, n, inner = x.shape
    if not x.is_cuda:
        raise UnsupportedProblemError(
            "mine/softmax/one_row", f"Triton compiles it for a GPU, and x is on the {x.device}"
        )
    if n > LONGEST:
        raise UnsupportedProblemError("mine/softmax/one_row", f"rows of up to {LONGEST} elements, got {n}")
    block = triton.next_power_of_2(n)
    warps = min(max(block // 512, 1), 16)

    def launch() -> None:
        strides = (*x.stride(), *out.stride())
        one_row_kernel[(outer * inner,)](x, out, inner, n, *strides, BLOCK=block, num_warps=warps)

    return launch
