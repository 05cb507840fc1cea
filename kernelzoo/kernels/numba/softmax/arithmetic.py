"""A thread's arithmetic on its elements of a row: the maximum, the sum of exponentials, and the results.

Half precision is computed in float32. Sums are merged in a fixed order, so that the same input gives the same bits. A
NaN or +inf makes the sum of exponentials NaN, and so the row. If a part's maximum is -inf, 0 is subtracted instead,
because -inf - -inf is NaN. A row of only -inf becomes 0 * (1 / 0) = NaN, as it must.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import exponential, opaque
from kernelzoo.kernels.numba.dtypes import WIDE, constant, is_packed
from kernelzoo.kernels.numba.row import warp_max, warp_sum
from kernelzoo.kernels.numba.softmax.exact import sum_functions


@cache
def type_and_constants(dtype: str) -> tuple[Any, Any, Any, Any]:
    """Return ``kind, ZERO, ONE, LOWEST``: the accumulator type of a dtype, and 0, 1 and -inf in that type."""
    return WIDE[dtype], constant(dtype, 0), constant(dtype, 1), constant(dtype, -np.inf)


@cache
def state_functions(dtype: str) -> tuple[Any, Any, Any]:
    """Return ``finite``, ``rescale_sum`` and ``warp_merge`` of (max, sum) states.

    ``finite(m)`` is the number to subtract: m, or 0 if m is -inf. ``rescale_sum(m, s, more)`` rescales the sum s from
    the maximum m to a larger maximum ``more``. ``warp_merge(m, s)`` merges a warp's states, alike in all lanes."""
    _, ZERO, _, LOWEST = type_and_constants(dtype)

    @cuda.jit(device=True, inline="always")
    def finite(m):
        return m if m > LOWEST else ZERO

    @cuda.jit(device=True, inline="always")
    def rescale_sum(m, s, more):
        return s * exponential(m - finite(more))

    @cuda.jit(device=True, inline="always")
    def warp_merge(m, s):
        own = m
        m = warp_max(m)
        return m, warp_sum(rescale_sum(own, s, m))

    return finite, rescale_sum, warp_merge


@cache
def softmax_functions(dtype: str, vec: int, words: int, exact: bool = False) -> tuple[Any, Any, Any, Any, Any]:
    """Return ``finite``, ``thread_max``, ``thread_sum``, ``normalize`` and ``rescale`` for ``words`` registers.

    ``finite``: see ``state_functions``. ``thread_max(row, k)`` is the maximum of ``row[k : k + words]``. It ignores a
    NaN unless ``exact``. ``thread_sum(row, k, shift)`` is the sum of exp(element - shift), in multiples of 2^-42 if
    ``exact``. Unless halves are packed, it replaces elements by exponentials. Packed halves would round these.
    ``normalize(row, k, shift, scale)`` replaces exponentials by results. For packed halves it computes exponentials
    again. ``rescale(own, shift, scale)`` is the scale for ``normalize`` if ``thread_sum`` subtracted ``finite(own)``
    for its own maximum, and the row's is ``shift``. For exponentials of a part of only -inf, it is 0."""
    finite, _, _ = state_functions(dtype)
    kind, of_two, term, _ = sum_functions(dtype, exact)
    PACKED, ZERO = is_packed(dtype, vec), np.dtype(str(kind)).type(0)
    low, high, pack, packed_max, _ = machine.packed_functions(dtype, nan_stays=exact)
    larger = packed_max if PACKED else of_two

    @cuda.jit(device=True, inline="always")
    def thread_max(row, k):
        m = row[k]
        for j in range(1, words):
            m = larger(m, row[k + j])
        return of_two(low(m), high(m)) if PACKED else m

    @cuda.jit(device=True, inline="always")
    def thread_sum(row, k, shift):
        s, other = ZERO, ZERO
        for j in range(words):
            if PACKED:
                word = opaque(row[k + j])
                s += term(exponential(low(word) - shift))
                other += term(exponential(high(word) - shift))
            else:
                row[k + j] = exponential(row[k + j] - shift)
                s += term(row[k + j])
        return s + other if PACKED else s

    @cuda.jit(device=True, inline="always")
    def normalize(row, k, shift, scale):
        for j in range(words):
            if PACKED:
                word = opaque(row[k + j])
                row[k + j] = pack(exponential(low(word) - shift) * scale, exponential(high(word) - shift) * scale)
            else:
                row[k + j] *= scale

    @cuda.jit(device=True, inline="always")
    def rescale(own, shift, scale):
        return scale if PACKED else exponential(own - shift) * scale

    return finite, thread_max, thread_sum, normalize, rescale
