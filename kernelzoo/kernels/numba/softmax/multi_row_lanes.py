"""Short rows of any length through shared memory, a few lanes to a row; of half precision and odd length, to two rows.

Two such rows fill whole words of four bytes: but for the one that they share, all of a row's words are its own, and no
lane tests where in a word the row begins.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, within_grid
from kernelzoo.kernels.numba.row import spread, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.thread_rows import (
    SHARED,
    THREADS,
    UNROLLED,
    WHY_NOT,
    Share,
    fits,
    moves,
    parts,
    places,
)
from kernelzoo.kernels.numba.words import ALIGNED, EVERY_LANE, WARP, exponential, machine, maximum, reciprocal
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

WORD = 4
"""Bytes that a bank of shared memory has."""
LANES = (2, 4, 8)
"""To a row: with more, those of a warp need not end on a boundary of 16 bytes."""


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    lane_elements: int = knob(
        40, among=(24, 32, 40, 80), unit="elements", why="of a row to a lane at most, in whose registers they stay"
    )


def items(own: Share) -> int:
    """Whole words of a row that a lane has at most: the first by 32, and of the rest one at a time."""
    words = own.n // own.each
    return words // WARP * (WARP // own.lanes) + cdiv(words % WARP, own.lanes)


@cache
def multi_row_lanes_kernel(own: Share) -> Source:
    """Words are dealt in runs of ``32 / lanes``, so that lanes of rows that are an odd number of words apart meet in no
    bank; those after the last 32, one by one."""
    dtype, lanes = own.dtype, own.lanes
    kind, storage = WIDE[dtype], STORAGE[dtype]
    LOWEST: Any = lowest(dtype)
    ZERO, EMPTY = type(LOWEST)(0), spread(dtype, own.each, LOWEST)
    read, _, _, write = moves(own)
    place, (element, put) = places(own), parts(own)
    load_words, store_words = machine.tile_words(dtype, WORD)
    _, _, _, widened, set_narrow = machine.tile_functions(dtype)
    ROWS, N, OWN, TILE, LANES, PER = own.rows, own.n, own.elements, own.tile, lanes, own.each
    ITEMS, WORDS = items(own), own.n // own.each
    RUN, DEALT, FULL = WARP // lanes, WORDS // WARP * WARP, WORDS // WARP * (WARP // lanes)
    LAST = (WORDS - DEALT) % lanes or lanes  # lanes that have an item as the last one
    HALF = own.n % own.each
    HELD = ITEMS * PER + HALF
    KIND = word_type(dtype, PER)
    STEPS, FIRST = lanes.bit_length() - 1, lanes // 2

    def multi_row_lanes(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(TILE, storage, ALIGNED)
        words = cuda.local.array(ITEMS, KIND)
        row = cuda.local.array(HELD, kind)
        warp_lane, first, count, at = place(rows)
        read(x, first * N, tile, at, warp_lane, count)
        lane = warp_lane & (LANES - 1)
        start = at + warp_lane // LANES * OWN
        for k in range(ROWS):
            begins = start + k * (WORDS + HALF) * PER
            half = start + k * N + (N - 1 if k == 0 else 0)  # the element in the word that two rows share
            m = LOWEST
            for i in range(ITEMS):
                words[i] = EMPTY
                w = i // RUN * 32 + lane * RUN + i % RUN if i < FULL else DEALT + (i - FULL) * LANES + lane
                if i + 1 < ITEMS or lane < LAST:
                    load_words(tile, begins + w * PER, words, i)
            for e in range(ITEMS * PER):
                row[e] = element(words, e)
                m = maximum(m, row[e])
            if HALF:
                row[HELD - 1] = LOWEST
                if lane == LANES - 1:
                    row[HELD - 1] = widened(tile, half)
                m = maximum(m, row[HELD - 1])
            for step in range(STEPS):
                m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, FIRST >> step))
            shift = m if m > LOWEST else ZERO
            s, part = ZERO, ZERO
            for e in range(HELD):
                row[e] = exponential(row[e] - shift)
                part += row[e]  # of eight: one sum of equal terms, all rounded the same way, would be off too far
                if e % 8 == 7 or e + 1 == HELD:
                    s += part
                    part = ZERO
            for step in range(STEPS):
                s += cuda.shfl_xor_sync(EVERY_LANE, s, FIRST >> step)
            scale = reciprocal(s)
            before = ZERO
            for e in range(ITEMS * PER):
                value = row[e] * scale
                put(words, e, before, value)
                before = value
            for i in range(ITEMS):
                w = i // RUN * 32 + lane * RUN + i % RUN if i < FULL else DEALT + (i - FULL) * LANES + lane
                if i + 1 < ITEMS or lane < LAST:
                    store_words(tile, begins + w * PER, words, i)
            if HALF and lane == LANES - 1:
                set_narrow(tile, half, row[HELD - 1] * scale)
        write(out, first * N, tile, at, warp_lane, count)

    return Source(multi_row_lanes, (dtype, dtype), THREADS, (own,))


def shape(v: View, numbers: Numbers) -> Share | None:
    """What a group of lanes has, the fewest that so many elements each are enough for; None if this is not the form to
    take."""
    if v.itemsize > WORD or not fits(v):
        return None
    found = None
    for own in (Share(v.dtype, v.n, WORD, lanes) for lanes in reversed(LANES)):
        held = items(own) * own.each + v.n % own.each
        can = items(own) and own.rows * held <= UNROLLED and own.tile * itemsize(v.dtype) <= SHARED
        if can and (found is None or held <= numbers.lane_elements + 1):
            found = own
    return found


@register("numba", "softmax", "multi_row_lanes")
@planned(Numbers)
def multi_row_lanes(v: View, device: Device, numbers: Numbers) -> BindView:
    """A few lanes take a short row, or two that fill whole words."""
    id, own = "numba/softmax/multi_row_lanes", shape(v, numbers)
    if own is None:
        raise UnsupportedProblemError(id, f"{WHY_NOT}, and not of float64")
    grid = within_grid(id, cdiv(v.total, own.block_rows))
    return prepare(multi_row_lanes_kernel(own), device).call(grid, *v.offsets)
