"""A running (maximum, sum) pair in each lane over blocks of a row; lanes meet after the loop, and leave the row's."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, device_of, edges_of, row_arguments, wide_dtype, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, edge_columns, row_start, whole_vectors
from kernelzoo.kernels.triton.min_backward.arguments import one_a_row
from kernelzoo.kernels.triton.softmax.device_functions import exponential
from kernelzoo.kernels.triton.softmax.online import PASS_TILE, column_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import cdiv, rows_with
from kernelzoo.registry import register


@triton.jit
def pairs_kernel(
    x, maximum, total, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: tl.constexpr,
    m_outer, m_inner,
    WIDE: tl.constexpr, LOWEST: tl.constexpr, EDGES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    cols = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    in_rows = row < rows
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf; see softmax/online.py.
    top = tl.full([ROWS, BLOCK], LOWEST, WIDE)
    sums = tl.zeros_like(top)
    inside = n
    longest = n
    if EDGES:
        before, inside = whole_vectors(x_start, n, EDGES)
        edge, known = edge_columns(tl.arange(0, 2 * EDGES)[None, :], before, inside, n, EDGES)
        edges = tl.load(x + (x_start + edge), known & in_rows, other=float("-inf")).to(WIDE)
        x_start = (x_start + EDGES - 1) // EDGES * EDGES
        longest = tl.max(inside)
    for start in range(0, longest, BLOCK):
        here = start + cols
        tile = tl.load(x + (x_start + here * x_n), in_rows & (here < inside), other=float("-inf")).to(WIDE)
        rise = tile - top
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-tl.abs(rise))
        sums = tl.where(rise > 0, sums * scale + 1, sums + scale)
        top = tl.maximum(top, tile)
    row_top = tl.max(top, 1, keep_dims=True)
    if EDGES:
        row_top = tl.maximum(row_top, tl.max(edges, 1, keep_dims=True))
    row_total = tl.sum(sums * exponential(top - row_top), 1, keep_dims=True)
    if EDGES:
        row_total += tl.sum(exponential(edges - row_top), 1, keep_dims=True)
    # Of a row of -inf alone the sum is 0; a NaN that the maximum dropped is in the sum.
    row_top = tl.where(row_total == 0, float("-inf"), tl.where(row_total == row_total, row_top, float("nan")))
    tl.store(maximum + row_start(row, inner, m_outer, m_inner, 1), row_top, in_rows)
    tl.store(total + row_start(row, inner, out_outer, out_inner, 1), row_total, in_rows)


@register("triton", "softmax_pairs", "online")
def online(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor) -> Launch:
    """One pass over column blocks that keeps a running (max, sum) pair in each lane; one read of a row.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows, others = rows_with(x, total, maximum)
    device, edges = device_of(x), edges_of(rows)
    side, block, warps = column_tile(device, rows, PASS_TILE)
    lowest = torch.finfo(wide_dtype(x.dtype)).min
    constants = wide_type(x.dtype), lowest, edges, side, block
    args = (x, maximum, total, *row_arguments(rows), *one_a_row(others), *constants)
    return bound("triton/softmax_pairs/online", x, pairs_kernel, cdiv(rows.total, side), args, warps, tensors=3)
