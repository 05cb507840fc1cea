"""A program takes several rows, block by block: in each lane the least element so far, and its place."""

import torch
import triton
import triton.language as tl

from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@triton.jit
def lesser(a, i, b, j):
    """The lesser of two elements, and its place: a NaN is less than all others, and of equal ones the first is."""
    equal = (a == b) | ((a != a) & (b != b))
    less = (a < b) | ((a != a) & (b == b)) | (equal & (i < j))
    return tl.where(less, a, b), tl.where(less, i, j)


@triton.jit
def argmin_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    await_last_launch()
    n = tl.cast(n, tl.int64) * MULTIPLE
    row = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    x_start = row_start(row, inner, x_outer, x_inner, MULTIPLE)
    lane = tl.arange(0, BLOCK).to(tl.int64)[None, :]
    # Lanes past the end read the last element again: it is the same, at the same place.
    places = tl.minimum(lane, n - 1) + tl.zeros([ROWS, BLOCK], tl.int64)
    least = tl.load(x + (x_start + places * x_n), row < rows, other=0).to(WIDE)
    for start in range(BLOCK, n, BLOCK):
        here = tl.minimum(start + lane, n - 1) + tl.zeros([ROWS, BLOCK], tl.int64)
        tile = tl.load(x + (x_start + here * x_n), row < rows, other=0).to(WIDE)
        least, places = lesser(least, places, tile, here)
    least, place = tl.reduce((least, places), 1, lesser, keep_dims=True)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), place, row < rows)


@register("triton", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """In each lane the least element so far and its place; lanes meet after the loop."""
    rows = rows_of(x, out)
    tile = tile_of(x, rows, 2)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), tile.rows, tile.block)
    return bound("triton/argmin/rows", x, argmin_kernel, tile.programs, args, tile.warps)
