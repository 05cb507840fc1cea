"""Device functions of a minimum's gradient. The elements that equal their row's minimum share the gradient.

Elements are compared in the dtype of computation. Past a row's end they are NaN, which equals nothing."""

import operator

from cutlass import Int32, Int64

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn


def load_widened(tensor, row, rows, TILE):
    """Load one value per row of a thread, in the dtype of computation."""
    return [dev.to_acc(value, TILE) for value in fn.load_row_values(tensor, row, rows, TILE)]


def equals_minimum(least, tXgX, tXcX, i, rows, TILE):
    """Return whether each of a thread's elements of block i equals its row's minimum, given in ``least``."""
    return dev.map_rows(operator.eq, dev.load(tXgX, tXcX, i, rows, TILE, float("nan")), TILE, least)


def as_counts(equal):
    """Convert booleans to 1 and 0, to count them. The counts of one thread fit in 32 bits."""
    return [[dev.select(one, Int32(1), Int32(0)) for one in vector] for vector in equal]


def gradient_shares(grads, counts):
    """Return (grad / count, grad * 0) per row: the gradients of minima and of others (NaN if count is 0)."""
    pairs = list(zip(grads, counts, strict=True))
    each = [grad / count.to(type(grad)) for grad, count in pairs]
    rest = [dev.select(count > 0, grad * 0.0, type(grad)(float("nan"))) for grad, count in pairs]
    return each, rest


def select_shares(equal, shares, TILE):
    return dev.map_rows(dev.select, equal, TILE, *shares)


def to_int64(counts):
    """Convert counts to 64 bits, because the sum over many threads may need them."""
    return [Int64(count) for count in counts]
