"""Device functions of a minimum's gradient: what each element that is equal to its row's minimum gets.

Elements are compared as they are computed, half precision in float32; past a row's end there is NaN, which equals
nothing.
"""

import operator

from cutlass import Int32, Int64

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn


def load_each(tensor, row, rows, TILE):
    """What there is one of to each of a thread's rows, as it is computed."""
    return [dev.to_acc(value, TILE) for value in fn.load_numbers(tensor, row, rows, TILE)]


def equal_tile(least, tXgX, tXcX, i, rows, TILE):
    """Which of a thread's elements of a block are equal to the least of their row."""
    return dev.map_rows(operator.eq, dev.load(tXgX, tXcX, i, rows, TILE, float("nan")), TILE, least)


def as_counts(equal):
    """Ones to be added up: in 32 bits, which a thread's own never exceed."""
    return [[dev.select(one, Int32(1), Int32(0)) for one in vector] for vector in equal]


def shares_of(grads, counts):
    """What each of count equal minima gets, and what every other element does; NaN if there is none. Of each row."""
    pairs = list(zip(grads, counts, strict=True))
    each = [grad / count.to(type(grad)) for grad, count in pairs]
    rest = [dev.select(count > 0, grad * 0.0, type(grad)(float("nan"))) for grad, count in pairs]
    return each, rest


def gradient_of(equal, shares, TILE):
    return dev.map_rows(dev.select, equal, TILE, *shares)


def long(counts):
    """Counts in 64 bits, in which those of many threads are added up."""
    return [Int64(count) for count in counts]
