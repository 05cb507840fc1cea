"""Short rows of half precision, by words of two numbers: a row of even length is whole words, and so are two of odd.

So many consecutive rows are a *unit*. In each *round* its lanes X
of two rows ends the first and begins the second: what lanes have in a round is of the first row, of the second or, in
one round, of either. All but the last is known when the kernel is compiled, and costs nothing.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from kernelzoo.kernels.triton.lanes import MOST, WARPS, lanes_of
from kernelzoo.layout import Rows, cdiv


@triton.jit
def load_words(x, start, lane, WORDS: tl.constexpr, LANES: tl.constexpr, EMPTY: tl.constexpr, POLICY: tl.constexpr):
    """The words of each unit, by rounds; EMPTY past its end."""
    place = x.to(tl.pointer_type(tl.int32), bitcast=True) + (start + lane)
    words = []
    for first in tl.static_range(0, WORDS, LANES):
        if first + LANES <= WORDS:
            words += [tl.load(place + first, eviction_policy=POLICY)]
        else:
            words += [tl.load(place + first, lane < WORDS - first, other=EMPTY, eviction_policy=POLICY)]
    return words


@triton.jit
def store_words(out, start, lane, there, words, WORDS: tl.constexpr, LANES: tl.constexpr):
    """Write what ``load_words`` would read."""
    place = out.to(tl.pointer_type(tl.int32), bitcast=True) + (start + lane)
    for first in tl.static_range(0, WORDS, LANES):
        tl.store(place + first, words[first // LANES], there & (lane < WORDS - first))


@triton.jit
def either(one, two, lane, FIRST: tl.constexpr, LANES: tl.constexpr, LAST: tl.constexpr):
    """One up to the unit's word LAST, two beyond it, in the round that begins with its word FIRST."""
    if FIRST + LANES - 1 <= LAST:
        result = one
    elif FIRST > LAST:
        result = two
    else:
        result = tl.where(lane <= LAST - FIRST, one, two)
    return result


class Units(NamedTuple):
    """Rows of a unit, its words, and the word of it that is the last to hold a number of the first row; lanes to each,
    units of a program, and how many there are."""

    rows: int
    words: int
    middle: int
    lanes: int
    side: int
    many: int


def units_of(rows: Rows, lane_words: int, warp_size: int, most: int = MOST) -> Units | None:
    """Units with so many words to a lane at the least, of a row alone half of them where that makes more than the most;
    None where rows are too long, or not one piece of memory on 16 bytes, of half precision."""
    if rows.dtype not in ("float16", "bfloat16") or not (rows.one_piece and rows.aligned) or rows.n > MOST:
        return None
    each = 1 + rows.n % 2
    words = rows.n * each // 2
    if rows.total < each or not words:
        return None
    lanes = lanes_of(words, lane_words)
    lanes = min(warp_size, 2 * lanes if each == 1 and cdiv(words, lanes) > most else lanes)
    middle = rows.n // 2 if each == 2 else cdiv(words, lanes) * lanes
    return Units(each, words, middle, lanes, WARPS * warp_size // lanes, rows.total // each)


def side_of(
    rows: Rows, lane_words: int, lane_elements: int, warp_size: int, most_words: int = MOST
) -> tuple[int, Units | None]:
    """Rows side by side in a program, and their units where lanes have words; elsewhere they have elements, so many at
    the least, or all of a row that lies across memory."""
    units = units_of(rows, lane_words, warp_size, most_words)
    if units:
        return units.side * units.rows, units
    lanes = 1 if rows.across else min(warp_size, lanes_of(rows.n, lane_elements))
    return WARPS * warp_size // lanes, None
