"""(max, sum) states of rows: the maximum, and the sum of exp(x - max).

Maxima begin at the lowest finite number, to avoid -inf - -inf. A maximum may drop a NaN, but the sum is NaN then."""

import cutlass
from cutlass import Boolean, Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute.softmax.device_functions import lowest_finite, rescale_and_add, rescale_sum


def make_states(TILE):
    """Return initial states of a thread's rows: running maxima, and running sums with rounding errors."""
    return dev.make_accumulator(lowest_finite(TILE), TILE), fn.make_sums(TILE)


def update_clamped_states(tops, totals, values, TILE):
    """Add elements to (max, sum) states. Maxima stay finite. With +inf, a sum becomes inf. With only -inf, it is 0."""
    highest = dev.acc_type(TILE)(-lowest_finite(TILE))
    risen = [
        dev.minimum(dev.maximum(*pair), highest)
        for pair in zip(dev.list_values(tops), dev.thread_reduce(values, dev.maximum, TILE), strict=True)
    ]
    rescale_and_add(tops, totals, risen, values, TILE)


@cute.jit
def update_states(tops, totals, tXgX, tXcX, begin, end, rows, TILE: cutlass.Constexpr):
    """Add a thread's elements of blocks begin to end - 1 to its states, see ``update_clamped_states``."""
    for i in cutlass.range(begin, end):
        update_clamped_states(tops, totals, dev.load(tXgX, tXcX, i, rows, TILE, -float("inf")), TILE)


def reduce_states(tops, totals, TILE):
    """Return (maxima, sums) of a thread's rows, merged over all threads."""
    mine = dev.list_values(tops)
    row_tops = dev.block_reduce(mine, dev.maximum, TILE)
    sums = [rescale_sum(*pair) for pair in zip(mine, fn.thread_sums(*totals), row_tops, strict=True)]
    return row_tops, dev.block_reduce(sums, dev.add, TILE)


@cute.jit
def merge_partial_states(tops, totals, stored_tops, stored_totals, row, parts, rows, TILE: cutlass.Constexpr):
    """Update this thread's states with those that blocks of other parts stored: of every TILE.lanes-th part."""
    for other in cutlass.range(dev.thread_coords(TILE)[1], parts, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        load_and_merge(tops, totals[0], stored_tops, stored_totals, place, apart, dev.row_exists(row, rows, TILE), TILE)


@cute.jit
def load_and_merge(top, total, tops, totals, offset: Int64, stride: Int64, exists: Boolean, TILE: cutlass.Constexpr):
    """Load the states that another block stored, if the rows exist. Merge them into a thread's states (top, total)."""
    if exists:
        layout = cute.make_layout((TILE.rows_per_thread,), stride=(stride,))
        other_top, other_total = cute.make_tensor(tops + offset, layout), cute.make_tensor(totals + offset, layout)
        for r in cutlass.range_constexpr(TILE.rows_per_thread):
            risen = dev.maximum(top[r], other_top[r])
            total[r] = rescale_sum(top[r], total[r], risen) + rescale_sum(other_top[r], other_total[r], risen)
            top[r] = risen
