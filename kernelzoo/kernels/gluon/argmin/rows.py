import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.packs import block_columns, locate_tile_rows, make_pack_launch_arguments
from kernelzoo.kernels.shared.jit import bind_grid, row_arguments, wide_type
from kernelzoo.launch import Launch
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register


@gluon.jit
def find_first_minimum(least, places, none):
    """Return (minimum, its lowest index) of each row. NaN counts as the minimum. none: more than any index."""
    row_least = gl.reduce(least, 1, dev.min_or_nan, keep_dims=True)
    has = (least == row_least) | ((least != least) & (row_least != row_least))
    return row_least, gl.min(gl.where(has, places, none), 1)


@gluon.jit
def row_argmin(
    x_rows, x_n, begin, end, in_rows, IDENTITY: gl.constexpr, ACC_DTYPE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Return each row's (minimum, first index) over columns ``begin`` to ``end``. NaN counts as the minimum.

    A loop finds the first block that contains the minimum. That block is read again to find the index.
    """
    BLOCK: gl.constexpr = LANES * PACK
    cols = block_columns(LANES, PACK, VECTOR, LAYOUT)
    least = gl.full([ROWS, LANES], IDENTITY, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    blocks = gl.full([ROWS, LANES], 0, gl.int32, gl.SliceLayout(2, LAYOUT))
    block = gl.cast(0, gl.int32)
    for start in range(begin, end, BLOCK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, in_rows & (here < end), other=IDENTITY).to(ACC_DTYPE)
        new = gl.reduce(tile, 2, dev.min_or_nan)
        blocks = gl.where((least <= new) | (least != least), blocks, block)
        least = dev.min_or_nan(least, new)
        block += 1
    row_least, first = find_first_minimum(least, blocks, 0x7FFFFFFF)
    first = begin + first.to(gl.int64) * BLOCK
    here = first[:, None, None] + cols
    known = in_rows & (here < end)
    tile = gl.load(x_rows + here * x_n, known, other=IDENTITY).to(ACC_DTYPE)
    row_least = row_least[:, :, None]
    has = known & ((tile == row_least) | ((tile != tile) & (row_least != row_least)))
    place = gl.min(gl.min(gl.where(has, cols.to(gl.int32), BLOCK), 2), 1)
    return gl.max(gl.max(row_least, 2), 1), first + place


@gluon.jit
def argmin_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner, MULTIPLE: gl.constexpr,
    IDENTITY: gl.constexpr, ACC_DTYPE: gl.constexpr, ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr,
    VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    dev.await_last_launch()
    n = gl.cast(n, gl.int64) * MULTIPLE
    group, place, there = locate_tile_rows(gl.program_id(0), rows, inner, ROWS, LAYOUT)
    x_rows = x + dev.row_start(group, place, x_outer, x_inner, MULTIPLE)[:, None, None]
    _, found = row_argmin(
        x_rows, x_n, 0, n, there[:, None, None], IDENTITY, ACC_DTYPE, ROWS, LANES, PACK, VECTOR, LAYOUT
    )
    gl.store(out + dev.row_start(group, place, out_outer, out_inner, 1), found, there)


@register("gluon", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread keeps its minimum and the number of its block. Then one block per row is searched for the index."""
    rows = rows_of(x, out)
    programs, warps, *tile = make_pack_launch_arguments(x, rows)
    args = (x, out, *row_arguments(rows), min_identity(x.dtype), wide_type(x.dtype), *tile)
    return bind_grid("gluon/argmin/rows", argmin_kernel, programs, args, warps)
