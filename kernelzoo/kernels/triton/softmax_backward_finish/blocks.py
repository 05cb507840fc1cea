import torch
import triton
import triton.language as tl

from kernelzoo.kernels.triton.device_functions import align, await_last_launch, locate_body_and_edges, row_start
from kernelzoo.kernels.triton.passes import launch_blocks
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@triton.jit
def finish_kernel(
    grad, y, total, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner, total_outer, total_inner, blocks,
    ACC_DTYPE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    # Backwards: what ``vecdot`` read last is likely still in L2.
    program = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    row = (program // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    first = program % blocks * BLOCK
    here = first + tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    sums = tl.load(total + row_start(row, inner, total_outer, total_inner, 1), in_rows, other=0.0)
    inside, _, edge, known = locate_body_and_edges(grad_start, n, in_rows, EDGES)
    if EDGES:
        known = known & (first == 0)
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(ACC_DTYPE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(ACC_DTYPE)
        tl.store(out + (out_start + edge), (y_edges * (grad_edges - sums)).to(DTYPE), known)
    grad_start = align(grad_start, EDGES)
    y_start = align(y_start, EDGES)
    out_start = align(out_start, EDGES)
    mask = in_rows & (here < inside)
    grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(ACC_DTYPE)
    y_tile = tl.load(y + (y_start + here * y_n), mask, other=0).to(ACC_DTYPE)
    tl.store(out + (out_start + here * out_n), (y_tile * (grad_tile - sums)).to(DTYPE), mask)


@register("triton", "softmax_backward_finish", "blocks")
def blocks(grad: torch.Tensor, y: torch.Tensor, total: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each program takes one block of a row: one read of both inputs, one write."""
    return launch_blocks(
        "triton/softmax_backward_finish/blocks", finish_kernel, (grad, y, total, out), row_inputs=2, one_block=True
    )
