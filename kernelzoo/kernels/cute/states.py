"""(max, sum) states of rows: the maximum, and the sum of exp(x - max).

Maxima begin at the lowest finite number, so that -inf - -inf never occurs. A maximum may drop a NaN, but the sum is
then NaN."""

import cutlass
from cutlass import Boolean, Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute.softmax.device_functions import add_terms, lowest, rescale


def make_states(TILE):
    """Return initial states of a thread's rows: running maxima, and running sums with rounding errors."""
    return dev.make_accumulator(lowest(TILE), TILE), fn.make_sums(TILE)


def finite_update(tops, totals, values, TILE):
    """Add elements to states. Maxima remain finite: a row with +inf has the sum inf, a row of only -inf the sum 0."""
    highest = dev.acc_type(TILE)(-lowest(TILE))
    risen = [
        dev.minimum(dev.maximum(*pair), highest)
        for pair in zip(dev.list_values(tops), dev.thread_reduce(values, dev.maximum, TILE), strict=True)
    ]
    add_terms(tops, totals, risen, values, TILE)


@cute.jit
def update_states(tops, totals, tXgX, tXcX, begin, end, rows, TILE: cutlass.Constexpr):
    """Add a thread's elements of blocks begin to end - 1 to its states, see ``finite_update``."""
    for i in cutlass.range(begin, end):
        finite_update(tops, totals, dev.load(tXgX, tXcX, i, rows, TILE, -float("inf")), TILE)


def row_states(tops, totals, TILE):
    """Return (maxima, sums) of a thread's rows, merged over all threads."""
    mine = dev.list_values(tops)
    row_tops = dev.block_reduce(mine, dev.maximum, TILE)
    sums = [rescale(*pair) for pair in zip(mine, fn.thread_sums(*totals), row_tops, strict=True)]
    return row_tops, dev.block_reduce(sums, dev.add, TILE)


@cute.jit
def merge_parts(tops, totals, left_tops, left_totals, row, parts, rows, TILE: cutlass.Constexpr):
    """Merge this thread's share of the parts' states into its own states."""
    for other in cutlass.range(dev.thread_coords(TILE)[1], parts, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        merge(tops, totals[0], left_tops, left_totals, place, apart, dev.row_exists(row, rows, TILE), TILE)


@cute.jit
def merge(top, total, tops, totals, place: Int64, apart: Int64, here: Boolean, TILE: cutlass.Constexpr):
    """Merge the states that a block stored into a thread's states (top, total), if its rows exist (``here``)."""
    if here:
        layout = cute.make_layout((TILE.rows_each,), stride=(apart,))
        other_top, other_total = cute.make_tensor(tops + place, layout), cute.make_tensor(totals + place, layout)
        for r in cutlass.range_constexpr(TILE.rows_each):
            risen = dev.maximum(top[r], other_top[r])
            total[r] = rescale(top[r], total[r], risen) + rescale(other_top[r], other_total[r], risen)
            top[r] = risen
