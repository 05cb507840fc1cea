"""Sums and (max, sum) states of rows. The sum of a state is that of exp(x - max). Lanes are merged at the end.

A block is [ROWS, LANES, PACK]. A thread has the PACK elements of a lane, as vectors of VECTOR adjacent elements.
"""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.tiles import LANES as WARP
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.pack_tiles import PackTile, pack_tile, strided_vector_width
from kernelzoo.layout import Rows


def make_pack_constants(rows: Rows, tile: PackTile) -> tuple[Any, ...]:
    """Return a kernel's ROWS, LANES, PACK, VECTOR and LAYOUT. One thread has all elements of one of a row's LANES."""
    pack = tile.block // tile.lanes
    if rows.is_strided:
        vector = min(strided_vector_width(rows), tile.rows)
        lanes = min(WARP, tile.rows // vector)
        layout = gl.BlockedLayout([vector, 1, pack], [lanes, WARP // lanes, 1], [1, tile.warps, 1], [0, 2, 1])
    else:
        lanes = min(WARP, tile.lanes)
        apart = min(tile.warps, max(1, tile.rows * lanes // WARP))
        layout = gl.BlockedLayout([1, 1, pack], [WARP // lanes, lanes, 1], [apart, tile.warps // apart, 1], [2, 1, 0])
    return tile.rows, tile.lanes, pack, tile.vector, layout


def make_pack_launch_arguments(x: torch.Tensor, rows: Rows) -> tuple[Any, ...]:
    """Return (programs, warps, *``make_pack_constants``) of a kernel in which each program takes complete rows."""
    tile = pack_tile(x, rows)
    return tile.programs, tile.warps, *make_pack_constants(rows, tile)


@gluon.jit
def block_columns(LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr):
    """Return the column of each element in a block, as [1, LANES, PACK]."""
    lane = gl.arange(0, LANES, gl.SliceLayout(0, gl.SliceLayout(2, LAYOUT)))[None, :, None]
    step = gl.arange(0, PACK, gl.SliceLayout(0, gl.SliceLayout(1, LAYOUT)))[None, None, :]
    return ((step // VECTOR * LANES + lane) * VECTOR + step % VECTOR).to(gl.int64)


@gluon.jit
def locate_tile_rows(tile, rows, inner, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """Return (outer index, inner index, whether the row exists) per row: see ``device_functions.row_coords``."""
    return dev.row_coords(tile, rows, inner, False, ROWS, gl.SliceLayout(2, LAYOUT))


@gluon.jit
def row_sum(
    x_rows, x_n, begin, end, in_rows, ACC_DTYPE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Return each row's sum over columns ``begin`` to ``end``. Sums over blocks are compensated for rounding."""
    cols = block_columns(LANES, PACK, VECTOR, LAYOUT)
    total = gl.full([ROWS, LANES], 0, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    lost = gl.full([ROWS, LANES], 0, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    for start in range(begin, end, LANES * PACK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, in_rows & (here < end), other=0).to(ACC_DTYPE)
        total, lost = dev.add_exactly(total, lost, gl.sum(tile, 2))
    return gl.sum(dev.add_up(total, lost), 1)


@gluon.jit
def max_and_sum(
    x_rows, x_n, begin, end, in_rows, LOWEST: gl.constexpr, HIGHEST: gl.constexpr, ACC_DTYPE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Return each row's (maximum, sum of exponentials) over columns ``begin`` to ``end``, in one pass.

    The sum is NaN if a row has a NaN, 0 if all are -inf. HIGHEST caps maxima. If finite, it makes the sum inf for +inf.
    """
    cols = block_columns(LANES, PACK, VECTOR, LAYOUT)
    # Maxima are at least the lowest finite number, so that no difference is -inf - -inf.
    top = gl.full([ROWS, LANES], LOWEST, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    total = gl.full([ROWS, LANES], 0.0, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    lost = gl.full([ROWS, LANES], 0.0, ACC_DTYPE, gl.SliceLayout(2, LAYOUT))
    for start in range(begin, end, LANES * PACK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, in_rows & (here < end), other=float("-inf")).to(ACC_DTYPE)
        new = gl.minimum(gl.maximum(top, gl.max(tile, 2)), HIGHEST)
        scale, terms = exponential(top - new), exponential(tile - new[:, :, None])
        total, lost = dev.add_exactly(total * scale, lost * scale, gl.sum(terms, 2))
        top = new
    return merge_states(top, dev.add_up(total, lost))


@gluon.jit
def merge_states(top, total):
    """Merge the (max, sum) states along axis 1: the parts of each row. Return one state per row."""
    terms = total * exponential(top - gl.max(top, 1, keep_dims=True))
    return gl.max(top, 1), gl.sum(terms, 1)
