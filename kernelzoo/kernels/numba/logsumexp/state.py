"""The (max, sum) state of a row of any length, in one pass."""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from kernelzoo.kernels.numba.device_functions import exponential, machine, maximum, minimum
from kernelzoo.kernels.numba.dtypes import WIDE, number, word_type
from kernelzoo.kernels.numba.lanes import add_exactly, whole
from kernelzoo.kernels.numba.row import access, block_reduce
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.tiling import Tiling


@cache
def row_state(dtype: str, tiling: Tiling) -> Any:
    """``state(x, source, step, lane, lanes, start, n, maxima, sums)``: (maximum, sum of exp(x - maximum)) of a row
    from ``start`` to n.

    The maximum is one of finite numbers, so that no difference is of two infinities: a row of -inf alone has the sum
    0, one with +inf the sum inf. A NaN is in the sum.
    """
    TOP = float(np.finfo(str(WIDE[dtype])).max)
    ZERO, HIGHEST, LOWEST = (number(dtype, value) for value in (0, TOP, -TOP))
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    _, load_tile, _, _, _ = access(dtype, tiling, number(dtype, -np.inf))
    _, thread_max, thread_sum, _, _ = arithmetic(dtype, tiling.vec, WORDS)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)

    @cuda.jit(device=True, inline="always")
    def state(x, source, step, lane, lanes, start, n, maxima, sums):
        words = cuda.local.array(WORDS, WORD)
        m, total, lost = LOWEST, ZERO, ZERO
        for first in range(start, n, lanes * SIZE):
            load_tile(x, source, step, lane, lanes, first, n, words, 0)
            more = minimum(maximum(m, thread_max(words, 0)), HIGHEST)
            scale = exponential(m - more)
            total, lost = add_exactly(total * scale, lost * scale, thread_sum(words, 0, more))
            m = more
        top = block_max(m, maxima)
        return top, block_sum(whole(total, lost) * exponential(m - top), sums)

    return state


@cache
def merged_state(kind: str, tiling: Tiling) -> Any:
    """``state(numbers, start, beside, lane, lanes, n, maxima, sums)``: the state of n parts of a row.

    Their maxima lie in ``numbers`` from ``start`` on, their sums ``beside`` further.
    """
    LOWEST, ZERO = number(kind, -float(np.finfo(kind).max)), number(kind, 0)
    load, _ = machine.element_functions(kind)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)

    @cuda.jit(device=True, inline="always")
    def state(numbers, start, beside, lane, lanes, n, maxima, sums):
        m, total = LOWEST, ZERO
        for i in range(start + lane, start + n, lanes):
            top = load(numbers, i)
            more = maximum(m, top)
            total = total * exponential(m - more) + load(numbers, beside + i) * exponential(top - more)
            m = more
        top = block_max(m, maxima)
        return top, block_sum(total * exponential(m - top), sums)

    return state
