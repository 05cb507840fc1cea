"""A running count in each lane over blocks of a row; lanes meet after the loop, and leave the row's."""

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
def count_kernel(
    x, y, count, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    y_outer, y_inner,
    WIDE: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    in_rows = row < rows
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    least = tl.load(y + row_start(row, inner, y_outer, y_inner, 1), in_rows, other=0).to(WIDE)
    inside = n
    longest = n
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        edges = tl.load(x + (x_start + edge), known & in_rows, other=float("nan")).to(WIDE) == least
        x_start = (x_start + EDGES - 1) // EDGES * EDGES
        longest = tl.max(inside)
    # Every lane counts for itself, in 32 bits, and lanes meet once, after the loop, in 64.
    counts = tl.zeros([ROWS, BLOCK], tl.int32)
    for start in range(0, longest, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < inside), other=float("nan"))
        counts += (tile.to(WIDE) == least).to(tl.int32)
    found = tl.sum(counts.to(tl.int64), 1, keep_dims=True)
    if EDGES:
        found += tl.sum(edges.to(tl.int64), 1, keep_dims=True)
    tl.store(count + row_start(row, inner, out_outer, out_inner, 1), found.to(WIDE), in_rows)


@register("triton", "min_backward_counts", "online")
def online(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running count in each lane; one read of a row."""
    rows, others = rows_with(x, count, y)
    device, edges = device_of(x), edges_of(rows)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    args = (x, y, count, *row_arguments(rows), *one_a_row(others), wide_type(x.dtype), edges, side, block)
    programs = cdiv(rows.total, side)
    return bound("triton/min_backward_counts/online", x, count_kernel, programs, args, warps, tensors=3)
