"""The (max, sum) state of a row of any length, in one pass."""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP, exponential, maximum, minimum
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import add_exactly, add_rounding_errors
from kernelzoo.kernels.numba.row import block_reduce, tile_accessors, warp_max, warp_sum
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions
from kernelzoo.kernels.numba.tiling import Tiling


@cache
def row_state_function(dtype: str, tiling: Tiling) -> Any:
    """Return ``state(x, source, step, lane, lanes, start, n, maxima, sums)``: a row's (max, sum) over elements [start,
    n).

    The sum is of exp(x - max). The maximum is clamped to finite numbers, so that no difference is inf - inf. A row of
    only -inf has the sum 0. A +inf makes the sum infinite, and a NaN makes it NaN."""
    TOP = float(np.finfo(str(WIDE[dtype])).max)
    ZERO, HIGHEST, LOWEST = (constant(dtype, value) for value in (0, TOP, -TOP))
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    _, load_tile, _, _, _ = tile_accessors(dtype, tiling, constant(dtype, -np.inf))
    _, thread_max, thread_sum, _, _ = softmax_functions(dtype, tiling.vec, WORDS)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)

    @cuda.jit(device=True, inline="always")
    def state(x, source, step, lane, lanes, start, n, maxima, sums):
        words = cuda.local.array(WORDS, WORD)
        m, total = LOWEST, (ZERO, ZERO)
        for first in range(start, n, lanes * SIZE):
            load_tile(x, source, step, lane, lanes, first, n, words, 0)
            more = minimum(maximum(m, thread_max(words, 0)), HIGHEST)
            scale = exponential(m - more)
            total = add_exactly((total[0] * scale, total[1] * scale), thread_sum(words, 0, more))
            m = more
        top = block_max(m, maxima)
        return top, block_sum(add_rounding_errors(total) * exponential(m - top), sums)

    return state


@cache
def merge_function(dtype: str) -> Any:
    """Return ``merge(states, first, parts, lane)``: a warp merges ``parts`` states from pair ``first`` on into one."""
    wide, ZERO, LOWEST = str(WIDE[dtype]), constant(dtype, 0), constant(dtype, float(np.finfo(str(WIDE[dtype])).min))
    load, _ = machine.element_accessors(wide)

    @cuda.jit(device=True, inline="always")
    def merge(states, first, parts, lane):
        top, total = LOWEST, ZERO
        for part in range(lane, parts, WARP):
            top = maximum(top, load(states, 2 * (first + part)))
        top = warp_max(top)
        for part in range(lane, parts, WARP):
            own = load(states, 2 * (first + part))
            total += load(states, 2 * (first + part) + 1) * exponential(own - top)
        return top, warp_sum(total)

    return merge
