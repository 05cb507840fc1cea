import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.device_functions import quotient
from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def finish_kernel(
    x, y, grad, count, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner, grad_outer, grad_inner, count_outer, count_inner, blocks,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    # Backwards: what ``min_backward_counts`` read last is likely still in L2.
    program = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    row = (program // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    first = program % blocks * BLOCK
    here = first + tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(ACC_DTYPE)
    slope = tl.load(grad + row_start(row, inner, grad_outer, grad_inner, 1), in_rows, other=0).to(ACC_DTYPE)
    number = tl.load(count + row_start(row, inner, count_outer, count_inner, 1), in_rows, other=1)
    each, rest = quotient(slope, number).to(DTYPE), quotient(slope * 0.0, number).to(DTYPE)
    inside, _, edge, known = locate_body_and_edges(x_start, n, in_rows, EDGES)
    if EDGES:
        known = known & (first == 0)
        equal = tl.load(x + (x_start + edge), known, other=float("nan")).to(ACC_DTYPE) == least
        tl.store(out + (out_start + edge), tl.where(equal, each, rest), known)
    x_start = align(x_start, EDGES)
    out_start = align(out_start, EDGES)
    mask = in_rows & (here < inside)
    equal = tl.load(x + (x_start + here * x_n), mask, other=float("nan")).to(ACC_DTYPE) == least
    tl.store(out + (out_start + here * out_n), tl.where(equal, each, rest), mask)


@register("triton", "min_backward_finish", "blocks")
def blocks(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, count: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes one block of a row: one read, one write."""
    return launch_blocks("triton/min_backward_finish/blocks", finish_kernel, (x, y, grad, count, out), one_block=True)
