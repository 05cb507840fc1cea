"""Words of the gradient of a minimum that its kernels share: what each element that is equal to its row's minimum gets.

Elements are compared as they are computed, half precision in float32; past a row's end there is NaN, which equals
nothing.
"""

from cutlass import Int32, Int64

from kernelzoo.kernels.cute.device_functions import (
    loaded,
    of_rows,
    one_a_row,
    scalars,
    seen,
    select,
    start_of,
    wide,
    widened,
)


def of_each(tensor, at, row, rows, here, TILE):
    """What there is one of to each of a thread's rows, as it is computed."""
    held = one_a_row(tensor, start_of(row, rows, at, TILE), at.row, here, TILE)
    return [widened(value, TILE) for value in scalars(held)]


def equal_to(least, x, at, start, row_end, element, here, TILE):
    """Which of a thread's elements are equal to the least of their row."""
    values = wide(loaded(seen(x, start, element, at, TILE, 0), here, element, row_end, float("nan"), TILE), TILE)
    return [[v == one for v, one in zip(vector, of_rows(least, TILE), strict=True)] for vector in values]


def counted(equal):
    """Ones to be added up: in 32 bits, which a thread's own never exceed."""
    return [[select(one, Int32(1), Int32(0)) for one in vector] for vector in equal]


def shares_of(grads, counts):
    """What each of count equal minima gets, and what every other element does; NaN if there is none. Of each row."""
    each = [grad / count.to(type(grad)) for grad, count in zip(grads, counts, strict=True)]
    rest = [select(count > 0, grad * 0.0, type(grad)(float("nan"))) for grad, count in zip(grads, counts, strict=True)]
    return each, rest


def given_to(equal, shares, TILE):
    """The gradient of a thread's elements."""
    each, rest = (of_rows(one, TILE) for one in shares)
    return [[select(one, *pair) for one, *pair in zip(vector, each, rest, strict=True)] for vector in equal]


def long(counts):
    """Counts in 64 bits, in which those of many threads are added up."""
    return [Int64(count) for count in counts]
