"""A program takes several rows, block by block: in each lane the least element so far, and its place."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.row_tiles import tile_of
from kernelzoo.kernels.shared.jit import bound, row_arguments, wide_type
from kernelzoo.kernels.shared.minimum import identity
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@gluon.jit
def lesser(a, i, b, j):
    """The lesser of two elements, and its place: a NaN is less than all others, and of equal ones the first is."""
    equal = (a == b) | ((a != a) & (b != b))
    less = (a < b) | ((a != a) & (b == b)) | (equal & (i < j))
    return gl.where(less, a, b), gl.where(less, i, j)


@gluon.jit
def argmin_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: gl.constexpr, WIDE: gl.constexpr, IDENTITY: gl.constexpr,
    ROWS: gl.constexpr, BLOCK: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = dev.row_coords(gl.program_id(0), rows, inner, False, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None]
    cols = gl.arange(0, BLOCK, gl.SliceLayout(0, LAYOUT)).to(gl.int64)[None, :]
    # What is past a row's end has places past all others, so that it is never the first of equal elements.
    least = gl.full([ROWS, BLOCK], IDENTITY, WIDE, LAYOUT)
    places = gl.full([ROWS, BLOCK], 0, gl.int64, LAYOUT) + n
    for start in range(0, n, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there[:, None] & (here < n), other=IDENTITY).to(WIDE)
        least, places = lesser(least, places, tile, here)
    least, found = gl.reduce((least, places), 1, lesser)
    gl.store(out + dev.row_start(group, place, out_outer, out_inner, 1), found, there)


@register("gluon", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """In each lane the least element so far and its place; lanes meet after the loop."""
    rows = rows_of(x, out)
    programs, warps, *tile = tile_of(x, rows, 2)
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), identity(x.dtype), *tile)
    return bound("gluon/argmin/rows", x, argmin_kernel, programs, args, warps)
