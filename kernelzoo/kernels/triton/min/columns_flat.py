"""Few columns without gaps: programs read them as pieces of memory, and the last to arrive joins their minima."""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, wide_type
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.column_tiles import COLUMN_PILE, Numbers, columns_or_refuse
from kernelzoo.kernels.triton.min.lowest import joined, lower
from kernelzoo.kernels.triton.words import await_last_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import Columns, cdiv, power_of_two
from kernelzoo.registry import register
from kernelzoo.tables import of

FLAT_COLUMNS = 512
"""Columns, at the most: a program folds its piece into a row of them at the end."""

THREADS = 256
"""Of a program: a vector to a thread and block."""


@triton.jit(do_not_specialize=["whole", "parts"])
def flat_columns_kernel(
    x, out, partials, arrivals, n, inner, x_outer, out_outer, out_inner, whole, period, parts,
    WIDE: tl.constexpr, IDENTITY: tl.constexpr, VECTOR: tl.constexpr, PILE: tl.constexpr,
    BLOCK: tl.constexpr, PIECE: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """Few columns without gaps, as pieces of memory: PILE blocks of whole vectors and of whole rows of the columns, so
    that a lane always meets the same column. The first and the last piece begin and end anywhere in a vector, and the
    last vector may reach past the memory: what it doesn't is read one by one, of the last ENDS rows of columns.
    """
    await_last_launch()
    program = tl.program_id(0)
    slab = program // parts
    part = program % parts
    period = period * VECTOR
    start = slab.to(tl.int64) * x_outer
    length = tl.cast(n, tl.int64) * inner
    shift = (start % VECTOR).to(tl.int32)
    aligned = start // VECTOR * VECTOR
    lane = tl.arange(0, BLOCK)[None, :]
    place = tl.arange(0, PILE)[:, None] * period + lane
    # The first program takes the first piece, the last one the last.
    pieces = ((length + shift + period * PILE - 1) // (period * PILE)).to(tl.int32)
    at = tl.where(part == 0, 0, pieces - 1).to(tl.int64) * (period * PILE) + place
    end = (length + shift + VECTOR - 1) // VECTOR * VECTOR
    end = tl.minimum(end, tl.cast(whole, tl.int64) * VECTOR - aligned)
    either = (part == 0) | (part == parts - 1)
    block = tl.load(x + aligned + at, (lane < period) & (at < end) & either, other=IDENTITY)
    least = tl.reduce(tl.where((at >= shift) & (at < length + shift), block.to(WIDE), IDENTITY), 0, lower)
    block = tl.full([PILE, BLOCK], IDENTITY, WIDE).to(x.dtype.element_ty)
    for i in tl.range(part + 1, pieces - 1, parts):
        coming = tl.load(
            x + aligned + (tl.cast(i, tl.int64) * (period * PILE) + place), lane < period, other=IDENTITY,
            eviction_policy="evict_first",
        )  # fmt: skip
        least = lower(least, tl.reduce(block.to(WIDE), 0, lower))
        block = coming
    least = lower(least, tl.reduce(block.to(WIDE), 0, lower))
    folds = tl.full([PIECE, COLUMNS], IDENTITY, WIDE)
    column = tl.arange(0, PIECE * COLUMNS) % COLUMNS
    for first in range(0, period // inner, PIECE):
        fold = (first + tl.arange(0, PIECE * COLUMNS) // COLUMNS) * inner
        whose = fold + column + shift
        whose = tl.where(whose < period, whose, whose - period)
        places = tl.gather(least, tl.minimum(whose, BLOCK - 1), 0)
        places = tl.where((fold < period) & (column < inner), places, IDENTITY)
        folds = lower(folds, tl.reshape(places, [PIECE, COLUMNS]))
    column = tl.arange(0, COLUMNS)
    there = column < inner
    least = tl.reduce(folds, 0, lower)
    for i in tl.static_range(1, ENDS + 1):
        beyond = start + length - i * inner + column
        outside = there & (beyond >= tl.cast(whole, tl.int64) * VECTOR) & (i <= n)
        least = lower(least, tl.load(x + beyond, outside, other=IDENTITY).to(WIDE))
    last, least = joined(least, partials, arrivals, slab, part, parts, there, IDENTITY, CHUNK, COLUMNS)
    goal = out + slab.to(tl.int64) * out_outer + column * out_inner
    tl.store(goal, least.to(out.dtype.element_ty), there & last)


class FlatTile(NamedTuple):
    """Blocks of few columns: how many lie above each other, elements that one has room for, those of whole rows of
    columns and whole vectors, programs to a slab that the device has room for, and threads."""

    pile: int
    block: int
    period: int
    parts: int
    threads: int


def tile_of(columns: Columns, device: Device) -> FlatTile | None:
    """The tile, None where columns are not one piece of aligned memory, or too many."""
    vector = 16 // columns.itemsize
    if columns.x_inner != 1 or columns.x_n != columns.inner or columns.x_phase:
        return None
    if columns.inner > FLAT_COLUMNS:
        return None
    block, least = THREADS * vector, math.lcm(columns.inner, vector)
    period = block // least * least
    if not period:
        return None
    pieces = columns.n * columns.inner // (period * COLUMN_PILE)
    wanted = of(Numbers, device.index).across_crowd * device.multiprocessors // columns.outer
    return FlatTile(COLUMN_PILE, block, period, min(wanted, pieces // 2), THREADS)


@register("triton", "min", "columns_flat")
def columns_flat(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over pieces of memory that hold few columns without gaps; the last program joins the minima of all."""
    id = "triton/min/columns_flat"
    x, out = plain(x), plain(out)
    columns, device = columns_or_refuse(id, x, out), device_of(x)
    tile = tile_of(columns, device)
    if tile is None:
        raise UnsupportedProblemError(
            id,
            f"it takes columns without gaps in memory that starts on 16 bytes, at most {FLAT_COLUMNS} side by side; "
            f"got {columns.inner}",
        )
    # The first program takes the first piece and the last one the last: there are two at the least.
    return launch_of_flat(id, x, out, columns, tile._replace(parts=max(2, tile.parts)))


def launch_of_flat(id: str, x: torch.Tensor, out: torch.Tensor, columns: Columns, tile: FlatTile) -> Launch:
    """The launch of so many programs to a slab of columns."""
    width = power_of_two(columns.inner)
    partials = x.new_empty((columns.outer, tile.parts, width))
    arrivals = x.new_zeros(columns.outer, dtype=torch.int32)
    vector = 16 // x.element_size()
    whole = ((columns.outer - 1) * columns.x_outer + columns.n * columns.inner) // vector
    layout = (columns.n, columns.inner, columns.x_outer, columns.out_outer, columns.out_inner)
    place = (x, out, partials, arrivals, *layout, whole, tile.period // vector, tile.parts)
    kinds = (wide_type(x.dtype), identity(x.dtype), vector)
    piece = max(1, min(power_of_two(tile.period // columns.inner), 2 * tile.block // width))
    chunk = max(1, min(power_of_two(tile.parts), tile.block // width))
    ends = cdiv(vector - 1, columns.inner)
    args = (*place, *kinds, tile.pile, tile.block, piece, width, chunk, ends)
    programs = columns.outer * tile.parts
    return bound(id, x, flat_columns_kernel, programs, args, device_of(x).warps(tile.threads))
