"""A thread's arithmetic on its elements of a row: count the row's minima, and compute the gradient.

Elements that are not read are NaN, so that they equal nothing. Counts are 64-bit integers, exact for any row.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import opaque
from kernelzoo.kernels.numba.dtypes import WIDE, constant, is_packed


@cache
def gradient_split_function(dtype: str) -> Any:
    """Return ``split_gradient(slope, count)``: the gradients of a row's count minima, and of its other elements. The
    latter is 0, or NaN if the row's gradient ``slope`` is infinite or NaN, or if count is 0."""
    kind, ZERO, NAN = WIDE[dtype], constant(dtype, 0), constant(dtype, np.nan)

    @cuda.jit(device=True, inline="always")
    def split_gradient(slope, count):
        return opaque(slope / kind(count)), slope * ZERO if count > 0 else NAN

    return split_gradient


@cache
def gradient_functions(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """Return ``count_matches(row, k, least)`` and ``compute_gradient(row, k, least, share, rest)``, for ``words``
    registers. The first counts elements equal to ``least``. The second turns these to ``share``, others to ``rest``."""
    PACKED = is_packed(dtype, vec)
    low, high, pack, _, _ = machine.packed_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def count_matches(row, k, least):
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
    def compute_gradient(row, k, least, share, rest):
        for j in range(words):
            if PACKED:
                word = opaque(row[k + j])
                row[k + j] = pack(share if low(word) == least else rest, share if high(word) == least else rest)
            else:
                row[k + j] = share if row[k + j] == least else rest

    return count_matches, compute_gradient
