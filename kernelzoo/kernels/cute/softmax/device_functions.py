"""Device functions of softmax.

All kernels subtract the maximum first, and then scale by log2(e) (see ``exponential``). The other order would lose bits
of rows with a large offset. A maximum may drop a NaN, but the sum doesn't: exp(NaN - max) is NaN."""

from cutlass import Float64, cute

from kernelzoo.kernels.cute.device_functions import add, list_values, map_rows, maximum, select, thread_reduce
from kernelzoo.kernels.cute.row_functions import add_compensated

LOG2_E = 1.4426950408889634
LOWEST = {"float64": -1.7976931348623157e308}
LOWEST_FLOAT32 = -3.4028234663852886e38


def exponential(x):
    """Return e^x. In float32 it uses the hardware's 2^x, which flushes subnormal results to zero."""
    return cute.math.exp(x) if isinstance(x, Float64) else cute.math.exp2(x * LOG2_E, fastmath=True)


def zero_if_empty(row_max):
    """Return the number to subtract from a row: its maximum, or 0 if all elements are -inf. So no lane computes
    -inf - -inf, and such a row's result is 0 / 0 = NaN."""
    return select(row_max == -float("inf"), type(row_max)(0.0), row_max)


def lowest_finite(TILE):
    """Return the lowest finite number. Running maxima begin there, so that -inf - -inf never occurs."""
    return LOWEST.get(TILE.dtype, LOWEST_FLOAT32)


def online_update(tops, totals, values, TILE):
    """Add elements to the running (max, sum) states of a thread's rows. Maxima begin at ``lowest_finite``."""
    risen = [maximum(*pair) for pair in zip(list_values(tops), thread_reduce(values, maximum, TILE), strict=True)]
    rescale_and_add(tops, totals, risen, values, TILE)


def rescale_and_add(tops, totals, new_tops, values, TILE):
    """Rescale states to their new maxima ``new_tops``, then add the exponentials of more elements to the sums."""
    for r, top in enumerate(new_tops):
        scale = exponential(tops[r] - top)
        tops[r] = top
        for kept in totals:
            kept[r] = kept[r] * scale
    sums, lost = totals
    add_compensated(sums, lost, thread_reduce(map_rows(exponential_of_difference, values, TILE, new_tops), add, TILE))


def rescale_sum(top, total, row_top):
    """Convert a sum of exp(x - top) to a sum of exp(x - row_top)."""
    return total * exponential(top - row_top)


def exponential_of_difference(x, row_max):
    return exponential(x - row_max)


def softmax_of(x, top, scale):
    """Return the softmax of an element: exp(x - top) * scale, where scale is 1 / (the row's sum)."""
    return exponential(x - top) * scale
