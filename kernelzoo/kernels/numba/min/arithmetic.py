"""How a thread folds what it has read of a row.

A NaN must win, which ``min`` and Numba's own atomics do not see to: kernels take ``minimum`` and ``atomic_min`` of
:mod:`kernelzoo.kernels.numba.machine`. Half precision is compared in float32 and the narrow integers in int32, which is
exact.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba.device_functions import machine, minimum
from kernelzoo.kernels.numba.row import Tiling


@cache
def folding(dtype: str, tiling: Tiling) -> Any:
    """``smallest_of(row, k, value)``: the least of a value and of what a thread has read of a row, from ``row[k]`` on.

    Packed halves are compared two at a time, and widened once there is only one word of them left.
    """
    PACKED, WORDS = machine.is_packed(dtype, tiling.vec), tiling.words(dtype)
    low, high, _, _, least = machine.word_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def smallest_of(row, k, value):
        if PACKED:
            word = row[k]
            for j in range(1, WORDS):
                word = least(word, row[k + j])
            return minimum(value, minimum(low(word), high(word)))
        for j in range(WORDS):
            value = minimum(value, row[k + j])
        return value

    return smallest_of
