"""What a thread does with its part of a row: the maximum, the sum of exponentials, and the results.

Half precision is computed in float32, and sums are met in a fixed order, so that the same input gives the same bits.
A row with a NaN or +inf becomes NaN by itself, through its exponentials' sum. The largest of a part that is -inf alone
is replaced by 0 before it is subtracted, or -inf - -inf would make a NaN out of a legal row; where the whole row is
-inf, 0 / 0 is the NaN that is due.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba.device_functions import exponential, machine, maximum
from kernelzoo.kernels.numba.dtypes import lowest


@cache
def finite_of(dtype: str) -> Any:
    """``finite(m)``: what to subtract for a largest value of m: m, but 0 for -inf."""
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)

    @cuda.jit(device=True, inline="always")
    def finite(m):
        return m if m > LOWEST else ZERO

    return finite


@cache
def arithmetic(dtype: str, vec: int, words: int) -> tuple[Any, Any, Any, Any, Any]:
    """``finite``, ``top``, ``total``, ``finish``, ``rescale``: what a thread does with ``words`` registers of a row.

    ``finite(m)`` is what to subtract for a largest value of m: m, but 0 for -inf.
    ``top(row, k)`` is the largest of the elements in ``row[k : k + words]``, a NaN dropped.
    ``total(row, k, shift)`` is the sum of exp(element - shift).
    ``finish(row, k, shift, scale)`` makes the elements results. A dtype as wide as its arithmetic keeps the
    exponentials of ``total`` in place of the elements, and multiplies them by ``scale`` alone. A packed half has no
    room for them unrounded: it takes exp(element - shift) again, of any shift.
    ``rescale(own, shift, scale)`` is the scale to finish with if the largest value turns out to be ``shift``, and
    ``total`` was taken with ``finite(own)``: 0 for what is -inf alone, so that it stays 0 with any shift.
    """
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)
    finite = finite_of(dtype)

    if machine.is_packed(dtype, vec):
        low, high, pair, larger, _ = machine.word_functions(dtype)
        keep = machine.keep

        @cuda.jit(device=True, inline="always")
        def top(row, k):
            m = row[k]
            for j in range(1, words):
                m = larger(m, row[k + j])
            return maximum(low(m), high(m))

        @cuda.jit(device=True, inline="always")
        def total(row, k, shift):
            s, other = ZERO, ZERO
            for j in range(words):
                word = keep(row[k + j])
                s += exponential(low(word) - shift)
                other += exponential(high(word) - shift)
            return s + other

        @cuda.jit(device=True, inline="always")
        def finish(row, k, shift, scale):
            for j in range(words):
                word = keep(row[k + j])
                row[k + j] = pair(exponential(low(word) - shift) * scale, exponential(high(word) - shift) * scale)

        @cuda.jit(device=True, inline="always")
        def rescale(own, shift, scale):
            return scale

        return finite, top, total, finish, rescale

    @cuda.jit(device=True, inline="always")
    def wide_top(row, k):
        m = row[k]
        for j in range(1, words):
            m = maximum(m, row[k + j])
        return m

    @cuda.jit(device=True, inline="always")
    def wide_total(row, k, shift):
        s = ZERO
        for j in range(words):
            row[k + j] = exponential(row[k + j] - shift)
            s += row[k + j]
        return s

    @cuda.jit(device=True, inline="always")
    def wide_finish(row, k, shift, scale):
        for j in range(words):
            row[k + j] *= scale

    @cuda.jit(device=True, inline="always")
    def wide_rescale(own, shift, scale):
        return exponential(own - shift) * scale

    return finite, wide_top, wide_total, wide_finish, wide_rescale
