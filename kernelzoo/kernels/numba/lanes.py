"""Kernels that take rows element by element: how many lanes go along a row, and how they keep a long sum exact."""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import number
from kernelzoo.kernels.numba.row import block_reduce
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.layout import cdiv, power_of_two

THREADS = 256
FEW = 4
"""Elements that a lane has at the least, where rows lie along memory."""


def lanes_tiling(v: View) -> Tiling:
    """A block to a row, a part of a warp to a short one, or rows side by side where these are nearer in memory."""
    if v.across:
        rows = min(WARP, power_of_two(v.neighbours))
        return Tiling(min(THREADS // rows, max(WARP // rows, power_of_two(v.n))), rows, 1, 1, across=True)
    lanes = min(THREADS, power_of_two(cdiv(v.n, FEW)))
    return Tiling(lanes, 1 if lanes > WARP else 4 * WARP // lanes, 1, 1)


@cuda.jit(device=True, inline="always")
def add_exactly(total, lost, x):
    """(total + x, lost and what that rounded off), after Knuth (TAOCP 2, 4.2.2). Integers lose nothing."""
    new = total + x
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


@cuda.jit(device=True, inline="always")
def whole(total, lost):
    """A sum with what it rounded off, which is NaN where the sum is infinite."""
    return total + lost if lost == lost else total


@cache
def lane_sum(dtype: str, tiling: Tiling) -> Any:
    """``sum_over_lanes(total, lost, scratch)``: of a sum in each lane with what it rounded off, over the lanes of each
    row; every lane gets it. ``scratch`` may be that of an earlier sum."""
    _, _, block_sum = block_reduce(tiling, number(dtype, 0))

    @cuda.jit(device=True, inline="always")
    def sum_over_lanes(total, lost, scratch):
        cuda.syncthreads()
        return block_sum(whole(total, lost), scratch)

    return sum_over_lanes
