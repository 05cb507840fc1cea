"""Rows one by one: their maximum, and exponentials with their sum.

LLVM vectorises these loops without fast-math. Only the sum along a row may be reordered ('reassoc'): its terms are
never negative, and a NaN stays one in any order. The maximum is that of integers that sort as the floats do, and may
pass a NaN by: the exponentials and the sum still carry it.
"""

import numpy as np
from numba import njit

from kernelzoo.kernels.cpu.device_functions import bits_of, exponential, ordered, widen

BLOCK = 256
"""Elements exponentiated and summed at a time: 1 kB of float32, between prefetches of as much of the next row. With
four elements to a register and four registers in flight (SSE2, the least there is), each partial sum adds 16 terms, so
that its error stays within that of a pairwise sum of the row."""

# Offsets are unsigned 64-bit: Numba compiles a signed index with a branch for negative ones, which
# stops LLVM from seeing that a row is contiguous.


@njit
def top_of(x, start, step, n):
    """The maximum of n elements as an ordered integer; it may pass a NaN by, or be one."""
    top = ordered(bits_of(widen(x[start])))
    if step == np.uint64(1):
        for j in range(n):
            top = max(top, ordered(bits_of(widen(x[start + j]))))
    else:
        for j in range(n):
            top = max(top, ordered(bits_of(widen(x[start + j * step]))))
    return top


@njit
def exponentiate(x, start, step, n, top, row, to):
    """Write the exponentials of n elements of x, less their row's maximum, to row[to:]; return their sum.

    The sum has a loop of its own. In the first LLVM takes the vectorised form or, where it can't prove x and row apart
    (a temporary that happens to lie near the input), the plain one; adding there would add in another order, and give
    other bits by where memory was allocated.
    """
    if step == np.uint64(1):
        for j in range(n):
            row[to + j] = exponential(widen(x[start + j]) - top)
    else:
        for j in range(n):
            row[to + j] = exponential(widen(x[start + j * step]) - top)
    return sum_of(row, to, n)


@njit(fastmath={"reassoc"})
def sum_of(row, start, n):
    """The sum of n elements of row[start:], none negative, in an order that n alone decides."""
    total = row.dtype.type(0)
    for j in range(n):
        total += row[start + j]
    return total
