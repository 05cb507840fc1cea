"""A running sum of products in each lane over blocks of two rows; lanes meet after the loop, and leave the total."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.softmax.online import PASS_TILE, column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register


@triton.jit
def dot_kernel(
    x, y, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_n, y_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    y_start = row_start(row, inner, y_outer, y_inner, MULTIPLE)
    in_rows = row < rows
    inside = n
    longest = n
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        known = known & in_rows
        edges = tl.load(x + (x_start + edge), known, other=0).to(WIDE)
        edges *= tl.load(y + (y_start + edge), known, other=0).to(WIDE)
        x_start = (x_start + EDGES - 1) // EDGES * EDGES
        y_start = (y_start + EDGES - 1) // EDGES * EDGES
        longest = tl.max(inside)
    sums = tl.zeros([ROWS, BLOCK], WIDE)
    for start in range(0, longest, BLOCK):
        here = start + cols
        mask = in_rows & (here < inside)
        x_tile = tl.load(x + (x_start + here * x_n), mask, other=0).to(WIDE)
        sums += x_tile * tl.load(y + (y_start + here * y_n), mask, other=0).to(WIDE)
    row_total = tl.sum(sums, 1, keep_dims=True)
    if EDGES:
        row_total += tl.sum(edges, 1, keep_dims=True)
    tl.store(total + row_start(row, inner, out_outer, out_inner, 1), row_total, in_rows)


@register("triton", "vecdot", "online")
def online(x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running sum in each lane; one read of both rows."""
    rows, (other,) = rows_with(x, total, y)
    device, edges = device_of(x), edges_of(rows, other)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    args = (x, y, total, *row_arguments(rows, other), wide_type(x.dtype), edges, side, block)
    return bound("triton/vecdot/online", x, dot_kernel, cdiv(rows.total, side), args, warps, tensors=3)
