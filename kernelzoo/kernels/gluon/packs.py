"""What a thread does alone with its elements of a block, before lanes meet: sums, maxima, (max, sum) states of rows.

A block is [ROWS, LANES, PACK]: a thread has the PACK elements of its lane, vectors of VECTOR elements side by side.
"""

from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon import device_functions as dev
from kernelzoo.kernels.gluon.tiles import LANES as WARP
from kernelzoo.kernels.shared.device_functions import exponential
from kernelzoo.kernels.shared.pack_tiles import PackTile, pack_tile, vector_across
from kernelzoo.layout import Rows


def pack_constants(rows: Rows, tile: PackTile) -> tuple[Any, ...]:
    """ROWS, LANES, PACK, VECTOR and LAYOUT of a kernel: the elements of a lane are one thread's."""
    pack = tile.block // tile.lanes
    if rows.across:
        vector = min(vector_across(rows), tile.rows)
        lanes = min(WARP, tile.rows // vector)
        layout = gl.BlockedLayout([vector, 1, pack], [lanes, WARP // lanes, 1], [1, tile.warps, 1], [0, 2, 1])
    else:
        lanes = min(WARP, tile.lanes)
        apart = min(tile.warps, max(1, tile.rows * lanes // WARP))
        layout = gl.BlockedLayout([1, 1, pack], [WARP // lanes, lanes, 1], [apart, tile.warps // apart, 1], [2, 1, 0])
    return tile.rows, tile.lanes, pack, tile.vector, layout


def packs_of(x: torch.Tensor, rows: Rows) -> tuple[Any, ...]:
    """Programs and warps of a kernel over whole rows, and ``pack_constants``."""
    tile = pack_tile(x, rows)
    return tile.programs, tile.warps, *pack_constants(rows, tile)


@gluon.jit
def pack_columns(LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr):
    """Where in a block each element is, [1, LANES, PACK]."""
    lane = gl.arange(0, LANES, gl.SliceLayout(0, gl.SliceLayout(2, LAYOUT)))[None, :, None]
    step = gl.arange(0, PACK, gl.SliceLayout(0, gl.SliceLayout(1, LAYOUT)))[None, None, :]
    return ((step // VECTOR * LANES + lane) * VECTOR + step % VECTOR).to(gl.int64)


@gluon.jit
def pack_rows(tile, rows, inner, ROWS: gl.constexpr, LAYOUT: gl.constexpr):
    """(group, place, there) of each row of a tile, see ``device_functions.row_coords``."""
    return dev.row_coords(tile, rows, inner, False, ROWS, gl.SliceLayout(2, LAYOUT))


@gluon.jit
def row_sum(
    x_rows, x_n, begin, end, there, WIDE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """Sums of rows from begin to end: a thread's elements of a block, blocks and what they rounded off, then lanes."""
    cols = pack_columns(LANES, PACK, VECTOR, LAYOUT)
    total = gl.full([ROWS, LANES], 0, WIDE, gl.SliceLayout(2, LAYOUT))
    lost = gl.full([ROWS, LANES], 0, WIDE, gl.SliceLayout(2, LAYOUT))
    for start in range(begin, end, LANES * PACK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there & (here < end), other=0).to(WIDE)
        total, lost = dev.add_exactly(total, lost, gl.sum(tile, 2))
    return gl.sum(dev.whole(total, lost), 1)


@gluon.jit
def row_state(
    x_rows, x_n, begin, end, there, LOWEST: gl.constexpr, HIGHEST: gl.constexpr, WIDE: gl.constexpr,
    ROWS: gl.constexpr, LANES: gl.constexpr, PACK: gl.constexpr, VECTOR: gl.constexpr, LAYOUT: gl.constexpr,
):  # fmt: skip
    """(max, sum) of rows from begin to end, in one pass. Of a row with a NaN the sum is NaN, of -inf alone 0.

    Of a row with +inf the sum is infinite if HIGHEST is the highest finite number, and NaN if it is infinite.
    """
    cols = pack_columns(LANES, PACK, VECTOR, LAYOUT)
    # A maximum is no lower than the lowest finite number, so that no difference of two is -inf - -inf.
    top = gl.full([ROWS, LANES], LOWEST, WIDE, gl.SliceLayout(2, LAYOUT))
    total = gl.full([ROWS, LANES], 0.0, WIDE, gl.SliceLayout(2, LAYOUT))
    lost = gl.full([ROWS, LANES], 0.0, WIDE, gl.SliceLayout(2, LAYOUT))
    for start in range(begin, end, LANES * PACK):
        here = start + cols
        tile = gl.load(x_rows + here * x_n, there & (here < end), other=float("-inf")).to(WIDE)
        new = gl.minimum(gl.maximum(top, gl.max(tile, 2)), HIGHEST)
        scale, terms = exponential(top - new), exponential(tile - new[:, :, None])
        total, lost = dev.add_exactly(total * scale, lost * scale, gl.sum(terms, 2))
        top = new
    return merged(top, dev.whole(total, lost))


@gluon.jit
def merged(top, total):
    """(max, sum) of rows from those of their parts, which are side by side."""
    terms = total * exponential(top - gl.max(top, 1, keep_dims=True))
    return gl.max(top, 1), gl.sum(terms, 1)
