"""Softmax of short unaligned rows. A few lanes of a warp take each row, and read adjacent elements.

If half-precision rows are contiguous, lanes read words of two numbers. A *group* is one row of even length, or two rows
of odd length. In each *round*, the lanes of a group read adjacent words. If a group has two rows, the word in which the
first row ends is known at compile time. For other rows, lanes read single elements.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.device_functions import exponential, zero_if_empty
from kernelzoo.kernels.shared.halves import pack_halves, padding_word, unpack_halves
from kernelzoo.kernels.shared.jit import bind_grid, device_of, row_arguments, wide_type
from kernelzoo.kernels.triton.device_functions import await_last_launch, row_start
from kernelzoo.kernels.triton.softmax.device_functions import READ, compute_softmax
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows, cdiv, next_power_of_two, rows_of
from kernelzoo.registry import register
from kernelzoo.tables import form_knobs, knob, of

WARPS = 4
"""Warps per program."""

LEAST = 4
"""The fewest elements per lane. A lane has less than twice as many."""

MOST = 128
"""The most elements of a row, since all loads of a lane are unrolled."""


@form_knobs
class Knobs:
    lane_words: int = knob(
        4, among=(2, 4, 8), unit="words", why="of two numbers of half precision that a lane has at the least"
    )
    lane_most: int = knob(
        5, among=(5, 8, 16), unit="words", why="to a lane of one row, above which it has twice as many lanes"
    )


@triton.jit
def load_number_pairs(x, start, lane, WORDS: tl.constexpr, LANES: tl.constexpr):
    """Load each row group's words of two numbers, LANES words at a time, as a list. Numbers past its end are -inf."""
    place = x.to(tl.pointer_type(tl.int32), bitcast=True) + (start + lane)
    empty = padding_word(x.dtype.element_ty)
    words = []
    for first in tl.static_range(0, WORDS, LANES):
        if first + LANES <= WORDS:
            words += [tl.load(place + first, eviction_policy=READ)]
        else:
            words += [tl.load(place + first, lane < WORDS - first, other=empty, eviction_policy=READ)]
    return words


@triton.jit
def store_number_pairs(out, start, lane, mask, words, WORDS: tl.constexpr, LANES: tl.constexpr):
    """Store each row group's words of two numbers, in the order of ``load_number_pairs``."""
    place = out.to(tl.pointer_type(tl.int32), bitcast=True) + (start + lane)
    for first in tl.static_range(0, WORDS, LANES):
        tl.store(place + first, words[first // LANES], mask & (lane < WORDS - first))


@triton.jit
def select_by_row(first_row, second_row, lane, FIRST: tl.constexpr, LANES: tl.constexpr, LAST: tl.constexpr):
    """Return ``first_row`` for a row group's words up to number LAST, then ``second_row``. Lane 0 has word FIRST."""
    if FIRST + LANES - 1 <= LAST:
        result = first_row
    elif FIRST > LAST:
        result = second_row
    else:
        result = tl.where(lane <= LAST - FIRST, first_row, second_row)
    return result


@triton.jit
def lanes_kernel(
    x, out, rows, n, inner, x_outer, x_n, x_inner, out_outer, out_n, out_inner,
    MULTIPLE: tl.constexpr, ACC_DTYPE: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute softmax of short rows. A lane has every LANES-th element of its row. N: n, as a constant."""
    await_last_launch()
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, LANES)[None, :]
    here = lane.to(tl.int64)
    # Rows past the end repeat the last row, so only the last load of each row needs a mask.
    x_start = row_start(tl.minimum(row, rows - 1), inner, x_outer, x_inner, MULTIPLE)[:, None] + here * x_n
    out_start = row_start(row, inner, out_outer, out_inner, MULTIPLE)[:, None] + here * out_n
    elements = []
    for first in tl.static_range(0, N, LANES):
        if first + LANES <= N:
            element = tl.load(x + (x_start + first * x_n), eviction_policy=READ)
        else:
            element = tl.load(x + (x_start + first * x_n), lane < N - first, other=float("-inf"), eviction_policy=READ)
        elements += [element.to(ACC_DTYPE)]
    top = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        top = tl.maximum(top, elements[i])
    top = zero_if_empty(tl.max(top, 1))[:, None]
    elements = [exponential(element - top) for element in elements]
    total = elements[0]
    for i in tl.static_range(1, (N + LANES - 1) // LANES):
        total += elements[i]
    inverse = (1.0 / tl.sum(total, 1))[:, None]
    for first in tl.static_range(0, N, LANES):
        result = (elements[first // LANES] * inverse).to(out.dtype.element_ty)
        tl.store(out + (out_start + first * out_n), result, (row < rows)[:, None] & (lane < N - first))


@triton.jit
def words_kernel(
    x, out, rows,
    N: tl.constexpr, EACH: tl.constexpr, WORDS: tl.constexpr, MIDDLE: tl.constexpr,
    GROUPS: tl.constexpr, LANES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute softmax of groups: EACH rows of N numbers in WORDS pairs. The first row ends in pair MIDDLE."""
    await_last_launch()
    DTYPE: tl.constexpr = out.dtype.element_ty
    groups = rows // EACH
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    lane = tl.arange(0, LANES)[None, :]
    # Groups past the end repeat the last one.
    words = load_number_pairs(x, tl.minimum(group, groups - 1)[:, None] * WORDS, lane, WORDS, LANES)
    top = tl.full([GROUPS, LANES], float("-inf"), tl.float32)
    second_top = top
    lows, highs = [], []
    for first in tl.static_range(0, WORDS, LANES):
        low, high = unpack_halves(words[first // LANES], DTYPE)
        if first <= MIDDLE:
            here = select_by_row(low, float("-inf"), lane, first, LANES, MIDDLE)
            top = tl.maximum(top, tl.maximum(here, select_by_row(high, float("-inf"), lane, first, LANES, MIDDLE - 1)))
        if first + LANES > MIDDLE:
            here = select_by_row(float("-inf"), low, lane, first, LANES, MIDDLE)
            here = tl.maximum(here, select_by_row(float("-inf"), high, lane, first, LANES, MIDDLE - 1))
            second_top = tl.maximum(second_top, here)
        lows += [low]
        highs += [high]
    top = zero_if_empty(tl.max(top, 1, keep_dims=True))
    second_top = zero_if_empty(tl.max(second_top, 1, keep_dims=True))
    total = tl.zeros([GROUPS, LANES], tl.float32)
    second_total = total
    low_weights, high_weights = [], []
    for first in tl.static_range(0, WORDS, LANES):
        low = exponential(lows[first // LANES] - select_by_row(top, second_top, lane, first, LANES, MIDDLE))
        high = exponential(highs[first // LANES] - select_by_row(top, second_top, lane, first, LANES, MIDDLE - 1))
        if first <= MIDDLE:
            total += select_by_row(low, 0.0, lane, first, LANES, MIDDLE) + select_by_row(
                high, 0.0, lane, first, LANES, MIDDLE - 1
            )
        if first + LANES > MIDDLE:
            here = select_by_row(0.0, low, lane, first, LANES, MIDDLE)
            second_total += here + select_by_row(0.0, high, lane, first, LANES, MIDDLE - 1)
        low_weights += [low]
        high_weights += [high]
    inverse = 1.0 / tl.sum(total, 1, keep_dims=True)
    second_inverse = 1.0 / tl.sum(second_total, 1, keep_dims=True)
    results = []
    for first in tl.static_range(0, WORDS, LANES):
        low = low_weights[first // LANES] * select_by_row(inverse, second_inverse, lane, first, LANES, MIDDLE)
        high = high_weights[first // LANES] * select_by_row(inverse, second_inverse, lane, first, LANES, MIDDLE - 1)
        results += [pack_halves(low, high, DTYPE)]
    store_number_pairs(out, group[:, None] * WORDS, lane, (group < groups)[:, None], results, WORDS, LANES)
    if rows % EACH > 0 and tl.program_id(0) == tl.num_programs(0) - 1:
        cols = tl.arange(0, COLS)
        place = tl.cast(rows - 1, tl.int64) * N + cols
        last = tl.load(x + place, cols < N, other=float("-inf")).to(tl.float32)
        tl.store(out + place, compute_softmax(last, 0).to(DTYPE), cols < N)


class RowGroups(NamedTuple):
    """Groups of one row, or of two rows of odd length. rows, words and lanes: of one group. middle: the last word with
    a number of the group's first row. per_program and total: numbers of groups."""

    rows: int
    words: int
    middle: int
    lanes: int
    per_program: int
    total: int


def count_row_lanes(n: int, least: int) -> int:
    """Return a power of two of lanes per row, at most ceil(n / least). least: how many elements a lane should have."""
    return max(1, next_power_of_two(cdiv(n, least) + 1) // 2)


def plan_row_groups(rows: Rows, knobs: Knobs, warp_size: int) -> RowGroups | None:
    """Return groups of rows, or None if rows aren't half precision in one contiguous, 16-byte-aligned piece."""
    each = 1 + rows.n % 2
    if rows.dtype not in ("float16", "bfloat16") or not (rows.is_gapless and rows.aligned) or rows.total < each:
        return None
    words = rows.n * each // 2
    lanes = count_row_lanes(words, knobs.lane_words)
    lanes = min(warp_size, 2 * lanes if each == 1 and cdiv(words, lanes) > knobs.lane_most else lanes)
    middle = rows.n // 2 if each == 2 else cdiv(words, lanes) * lanes
    return RowGroups(each, words, middle, lanes, WARPS * warp_size // lanes, rows.total // each)


def is_short_and_ragged(rows: Rows) -> bool:
    """Whether rows are short, and their length isn't a multiple of a vector."""
    return not rows.is_strided and rows.itemsize <= 4 and rows.n % rows.vector_elements > 0 and rows.n <= MOST


@register("triton", "softmax", "multi_row_lanes")
def multi_row_lanes(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A few lanes of a warp take each short row, or two. They read adjacent elements, and reduce by shuffles."""
    id, rows, device = "triton/softmax/multi_row_lanes", rows_of(x, out), device_of(x)
    if rows.is_strided or rows.n > MOST:
        raise UnsupportedProblemError(id, f"it takes rows of up to {MOST} elements along memory; got {rows.n}")
    plan = plan_row_groups(rows, of(Knobs, device.index), device.warp_size)
    if plan:
        sizes = (rows.n, plan.rows, plan.words, plan.middle, plan.per_program, plan.lanes, next_power_of_two(rows.n))
        return bind_grid(id, words_kernel, cdiv(plan.total, plan.per_program), (x, out, rows.total, *sizes), WARPS)
    lanes = min(device.warp_size, count_row_lanes(rows.n, LEAST))
    side = WARPS * device.warp_size // lanes
    args = (x, out, *row_arguments(rows), wide_type(x.dtype), rows.n, side, lanes)
    return bind_grid(id, lanes_kernel, cdiv(rows.total, side), args, WARPS)
