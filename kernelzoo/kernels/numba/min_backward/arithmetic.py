"""What a thread does with its part of a row: it counts the row's minima, and puts each one's share in its place.

What is not read is NaN, which equals nothing. Counts are integers of 64 bits, exact for any row.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import opaque
from kernelzoo.kernels.numba.dtypes import WIDE, is_packed, number


@cache
def shares(dtype: str) -> Any:
    """``shares_of(slope, count)``: what each of so many minima gets of a row's gradient, and what the others get, which
    is zero or, of an infinite gradient or no minimum at all, NaN."""
    kind, ZERO, NAN = WIDE[dtype], number(dtype, 0), number(dtype, np.nan)

    @cuda.jit(device=True, inline="always")
    def shares_of(slope, count):
        return opaque(slope / kind(count)), slope * ZERO if count > 0 else NAN

    return shares_of


@cache
def arithmetic(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """``matches(row, k, least)``: how many elements of ``words`` registers from ``row[k]`` on equal the row's minimum.
    ``finish(row, k, least, share, rest)`` puts ``share`` in the place of each of these, and ``rest`` in the others'."""
    PACKED = is_packed(dtype, vec)
    low, high, pack, _, _ = machine.packed_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def matches(row, k, least):
        count = types.int32(0)
        for j in range(words):
            if PACKED:
                word = opaque(row[k + j])
                count = types.int32(count + (low(word) == least))
                count = types.int32(count + (high(word) == least))
            else:
                count = types.int32(count + (row[k + j] == least))
        return types.int64(count)

    @cuda.jit(device=True, inline="always")
    def finish(row, k, least, share, rest):
        for j in range(words):
            if PACKED:
                word = opaque(row[k + j])
                row[k + j] = pack(share if low(word) == least else rest, share if high(word) == least else rest)
            else:
                row[k + j] = share if row[k + j] == least else rest

    return matches, finish
