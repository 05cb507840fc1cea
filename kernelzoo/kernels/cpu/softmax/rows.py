"""Functions for single rows: their maximum, and exponentials with their sum.

LLVM vectorises these loops without fast-math. Only the sum along a row may be reordered ('reassoc'): its terms are
never negative, and a NaN stays one in any order. The maximum is computed on integers that sort like the floats. It may
ignore a NaN, but the exponentials and the sum do not.
"""

import numpy as np
from numba import njit

from kernelzoo.kernels.cpu.device_functions import as_bits, as_sortable, exponential, widen

BLOCK = 256
"""Elements that are exponentiated and summed at a time: 1 kB of float32, the unit of prefetching the next row. With
four elements per register and four registers in flight (SSE2, the least there is), each partial sum adds 16 terms. So
its error is at most that of a pairwise sum of the row."""

# Offsets are unsigned 64-bit: Numba compiles a signed index with a branch for negative ones, which
# stops LLVM from seeing that a row is contiguous.


@njit
def row_maximum(x, start, step, n):
    """Return the maximum of n elements as an integer that sorts like the float. A NaN may be ignored or returned."""
    top = as_sortable(as_bits(widen(x[start])))
    if step == np.uint64(1):
        for j in range(n):
            top = max(top, as_sortable(as_bits(widen(x[start + j]))))
    else:
        for j in range(n):
            top = max(top, as_sortable(as_bits(widen(x[start + j * step]))))
    return top


@njit
def exponentiate(x, start, step, n, top, row, to):
    """Write exp(x - top) of n elements to row[to:], and return their sum.

    The sum has a separate loop. LLVM vectorises the first loop only if x and row do not overlap, which it tests at run
    time. If that loop also summed, the order of additions, and so the bits, would depend on the memory's addresses.
    """
    if step == np.uint64(1):
        for j in range(n):
            row[to + j] = exponential(widen(x[start + j]) - top)
    else:
        for j in range(n):
            row[to + j] = exponential(widen(x[start + j * step]) - top)
    return row_sum(row, to, n)


@njit(fastmath={"reassoc"})
def row_sum(row, start, n):
    """Return the sum of n non-negative elements of row[start:], in an order that depends only on n."""
    total = row.dtype.type(0)
    for j in range(n):
        total += row[start + j]
    return total
