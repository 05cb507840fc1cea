"""A softmax's gradient by totals of rows that are known: a program to a block of a row, two reads, one write."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.softmax.online import PASS_TILE, column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register


@triton.jit
def finish_kernel(
    grad, y, total, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner, total_outer, total_inner, blocks,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    # Backwards: what ``vecdot`` read last is likeliest to be in L2 still.
    program = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)
    row = (program // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    first = program % blocks * BLOCK
    here = first + tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    sums = tl.load(total + row_start(row, inner, total_outer, total_inner, 1), in_rows, other=0.0)
    inside = n
    if EDGES:
        before, inside = whole_vectors(grad_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows & (first == 0)
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(WIDE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(WIDE)
        tl.store(out + (out_start + edge), (y_edges * (grad_edges - sums)).to(DTYPE), known)
        grad_start = (grad_start + EDGES - 1) // EDGES * EDGES
        y_start = (y_start + EDGES - 1) // EDGES * EDGES
        out_start = (out_start + EDGES - 1) // EDGES * EDGES
    mask = in_rows & (here < inside)
    grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(WIDE)
    y_tile = tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
    tl.store(out + (out_start + here * out_n), (y_tile * (grad_tile - sums)).to(DTYPE), mask)


@register("triton", "softmax_backward_finish", "blocks")
def blocks(grad: torch.Tensor, y: torch.Tensor, total: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program to a block of a row: one read of both inputs, one write."""
    rows, (weights, *others) = rows_with(grad, out, y, total)
    device, edges = device_of(grad), edges_of(rows, weights)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    count = cdiv(rows.n, block)
    constants = wide_type(grad.dtype), edges, side, block
    args = (grad, y, total, out, *row_arguments(rows, weights), *one_a_row(others), count, *constants)
    programs = cdiv(rows.total, side) * count
    return bound("triton/softmax_backward_finish/blocks", grad, finish_kernel, programs, args, warps, tensors=4)
