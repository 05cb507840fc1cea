"""The (max, sum) state of a row of any length, in one pass."""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from kernelzoo.kernels.numba.device_functions import exponential, machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import add_exactly, whole
from kernelzoo.kernels.numba.row import block_reduce
from kernelzoo.kernels.numba.tiling import Tiling


@cache
def row_state(dtype: str, tiling: Tiling) -> Any:
    """``state(x, start, step, lane, lanes, n, maxima, sums)``: a row's (maximum, sum of exp(x - maximum)).

    The maximum starts at the lowest finite number, so that no difference is of two -inf: a row of -inf alone has the
    sum 0. A NaN is in the sum; beside +inf each other +inf counts as 1.
    """
    ZERO, LOWEST = number(dtype, 0), number(dtype, float(np.finfo(str(WIDE[dtype])).min))
    load, _ = machine.element_functions(dtype)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)

    @cuda.jit(device=True, inline="always")
    def above(v, m):
        return ZERO if v == m else v - m  # of the same infinity

    @cuda.jit(device=True, inline="always")
    def state(x, start, step, lane, lanes, n, maxima, sums):
        m, total, lost = LOWEST, ZERO, ZERO
        for i in range(lane, n, lanes):
            v = load(x, start + i * step)
            if v > m:
                scale = exponential(m - v)
                m, total, lost = v, total * scale, lost * scale
            total, lost = add_exactly(total, lost, exponential(above(v, m)))
        top = block_max(m, maxima)
        return top, block_sum(whole(total, lost) * exponential(above(m, top)), sums)

    return state
