"""Short rows that begin anywhere in vectors: a thread or a few lanes to each, which read elements side by side.

Where rows of half precision follow each other without a gap, lanes have words of two numbers, as in softmax. Rows that
lie across memory are side by side in it, and have a thread each.
"""

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of, row_arguments, wide_type
from kernelzoo.kernels.triton import lanes
from kernelzoo.kernels.triton.lanes import MOST, WARPS
from kernelzoo.kernels.triton.min.arguments import identity, plain
from kernelzoo.kernels.triton.min.lowest import lower
from kernelzoo.kernels.triton.pairs import either, load_words, side_of
from kernelzoo.kernels.triton.softmax.halves import halves
from kernelzoo.kernels.triton.words import await_last_launch, row_start
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers, of

LONGEST = {2: 40, 4: 7}
"""Elements of a row, by the bytes of one, up to which lanes do better than one piece of memory."""

LONGEST_ACROSS = 48
"""Elements of a row across memory, up to which threads do better than tiles."""


@numbers
class Numbers:
    lane_elements: int = knob(
        8, among=(2, 4, 8), unit="elements", why="of a row that one lane has at the least, unless it is shorter"
    )
    lane_words: int = knob(
        8, among=(4, 8, 16), unit="words", why="of two numbers of half precision that a lane has at the least"
    )


@triton.jit
def rows_lanes_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, WIDE: tl.constexpr, IDENTITY: tl.constexpr, N: tl.constexpr,
    ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """A lane has each of LANES elements of its row: N, which is also n, need be no power of two."""
    await_last_launch()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)[None, :]
    # Rows past the last are read as that one: no load is masked but the last of each row.
    start = row_start(tl.minimum(row, rows - 1), inner, x_outer, x_inner, MULTIPLE)[:, None] + lane.to(tl.int64) * x_n
    elements = []
    for first in tl.static_range(0, N, LANES):
        if first + LANES <= N:
            element = tl.load(x + (start + first * x_n))
        else:
            element = tl.load(x + (start + first * x_n), lane < N - first, other=IDENTITY)
        elements += [element.to(WIDE)]
    least = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        least = lower(least, elements[i])
    least = tl.reduce(least, 1, lower).to(out.dtype.element_ty)
    tl.store(out + row_start(row, inner, out_outer, out_inner, 1), least, row < rows)


@triton.jit
def rows_words_kernel(
    x, out, rows,
    IDENTITY: tl.constexpr, N: tl.constexpr, EACH: tl.constexpr, WORDS: tl.constexpr, MIDDLE: tl.constexpr,
    UNITS: tl.constexpr, LANES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """EACH rows of N numbers are the WORDS words of a unit, whose first row ends in the lower half of word MIDDLE."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    units = rows // EACH
    unit = tl.program_id(0).to(tl.int64) * UNITS + tl.arange(0, UNITS)
    lane = tl.arange(0, LANES)[None, :]
    EMPTY: tl.constexpr = 0x7F807F80 if DTYPE == tl.bfloat16 else 0x7C007C00  # noqa: SIM300
    # Units past the last are read as that one.
    words = load_words(x, tl.minimum(unit, units - 1)[:, None] * WORDS, lane, WORDS, LANES, EMPTY, "")
    least = tl.full([UNITS, LANES], IDENTITY, tl.float32)
    second = least
    for first in tl.static_range(0, WORDS, LANES):
        low, high = halves(words[first // LANES], DTYPE)
        if first <= MIDDLE:
            here = either(low, IDENTITY, lane, first, LANES, MIDDLE)
            least = lower(least, lower(here, either(high, IDENTITY, lane, first, LANES, MIDDLE - 1)))
        if first + LANES > MIDDLE:
            here = either(IDENTITY, low, lane, first, LANES, MIDDLE)
            second = lower(second, lower(here, either(IDENTITY, high, lane, first, LANES, MIDDLE - 1)))
    place = out + unit * EACH
    tl.store(place, tl.reduce(least, 1, lower).to(DTYPE), unit < units)
    if EACH == 2:
        tl.store(place + 1, tl.reduce(second, 1, lower).to(DTYPE), unit < units)
    if rows % EACH > 0 and tl.program_id(0) == tl.num_programs(0) - 1:
        cols = tl.arange(0, COLS)
        last = tl.load(x + (tl.cast(rows - 1, tl.int64) * N + cols), cols < N, other=IDENTITY).to(tl.float32)
        tl.store(out + (rows - 1), tl.reduce(last, 0, lower).to(DTYPE))


def pays(rows: Rows) -> bool:
    """Whether rows are no whole vectors, and short, or lie across memory."""
    across = rows.columns
    if across is not None:
        return rows.n <= LONGEST_ACROSS and across.x_inner == 1
    return lanes.pays(rows, LONGEST)


@register("triton", "min", "rows_deferred_lanes")
def rows_deferred_lanes(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A thread or a few lanes of a warp to each short row, or two: they read neighbours, and meet by shuffles."""
    id = "triton/min/rows_deferred_lanes"
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    if rows.n > MOST:
        raise UnsupportedProblemError(id, f"it takes rows of up to {MOST} elements; got {rows.n}")
    knobs = of(Numbers, device.index)
    side, units = side_of(rows, knobs.lane_words, knobs.lane_elements, device.warp_size)
    if units:
        sizes = (rows.n, units.rows, units.words, units.middle, units.side, units.lanes, power_of_two(rows.n))
        args = (x, out, rows.total, identity(x.dtype), *sizes)
        return bound(id, x, rows_words_kernel, cdiv(units.many, units.side), args, WARPS)
    many = WARPS * device.warp_size // side
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), identity(x.dtype), rows.n, side, many)
    return bound(id, x, rows_lanes_kernel, cdiv(rows.total, side), args, WARPS)
