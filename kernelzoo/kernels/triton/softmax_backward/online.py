"""A running sum in each lane over blocks of a row, then a pass that reads the row again and writes."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.softmax.online import column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register


@triton.jit
def online_kernel(
    grad, y, out, rows, n, inner, grad_outer, grad_n, grad_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, y_outer, y_n, y_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    grad_start = row_start(row, inner, grad_outer, grad_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)
    in_rows = row < rows
    inside = n
    longest = n
    if EDGES:
        before, inside = whole_vectors(grad_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        grad_edges = tl.load(grad + (grad_start + edge), known, other=0).to(WIDE)
        y_edges = tl.load(y + (y_start + edge), known, other=0).to(WIDE)
        out_edges = out + (out_start + edge)
        grad_start = (grad_start + EDGES - 1) // EDGES * EDGES
        y_start = (y_start + EDGES - 1) // EDGES * EDGES
        out_start = (out_start + EDGES - 1) // EDGES * EDGES
        longest = tl.max(inside)
    # Every lane keeps a sum of its own, and lanes meet once, after the loop.
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, longest, BLOCK):
        here = start + cols
        mask = in_rows & (here < inside)
        grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(WIDE)
        sums += grad_tile * tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
    total = tl.sum(sums, 1, keep_dims=True)
    if EDGES:
        total += tl.sum(grad_edges * y_edges, 1, keep_dims=True)
        tl.store(out_edges, (y_edges * (grad_edges - total)).to(DTYPE), known)
    blocks = tl.cdiv(longest, BLOCK)
    for i in range(blocks):
        here = (blocks - 1 - i) * BLOCK + cols  # backwards: what was read last is likeliest to be in a cache still
        mask = in_rows & (here < inside)
        grad_tile = tl.load(grad + (grad_start + here * grad_n), mask, other=0).to(WIDE)
        y_tile = tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
        tl.store(out + (out_start + here * out_n), (y_tile * (grad_tile - total)).to(DTYPE), mask)


@register("triton", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running sum in each lane, then a pass that reads again and writes."""
    rows, (weights,) = rows_with(grad, out, y)
    device, edges = device_of(grad), edges_of(rows, weights)
    side, block, warps = column_tile(device, rows)
    args = (grad, y, out, *row_arguments(rows, weights), wide_type(grad.dtype), edges, side, block)
    programs = cdiv(rows.total, side)
    return bound("triton/softmax_backward/online", grad, online_kernel, programs, args, warps, tensors=3)
