"""What kernels of the minimum have in common: how a thread folds what it has read.

A NaN must win, which ``min`` and Numba's own atomics do not see to: kernels take ``minimum`` and ``atomic_min`` of
:mod:`kernelzoo.kernels.numba.machine`. Half precision is compared in float32 and the narrow integers in int32, which is
exact.
"""

from functools import cache
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba.dtypes import itemsize
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.kernels.numba.words import machine, minimum


@cache
def folding(dtype: str, tiling: Tiling) -> Any:
    """``smallest_of(row, k, value)``: the least of a value and of what a thread has read of a row, from ``row[k]`` on.

    Packed halves are compared two at a time, and widened once there is only one word of them left.
    """
    WORDS = tiling.words(dtype)

    @cuda.jit(device=True, inline="always")
    def of_words(row, k, value):
        for j in range(WORDS):
            value = minimum(value, row[k + j])
        return value

    if not machine.is_packed(dtype, tiling.vec):
        return of_words
    low, high, _, _, least = machine.word_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def of_halves(row, k, value):
        word = row[k]
        for j in range(1, WORDS):
            word = least(word, row[k + j])
        return minimum(value, minimum(low(word), high(word)))

    return of_halves


@cache
def by_column(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """``combine(a, b)`` of two words of rows side by side, and ``unfold(words, row)`` into one element for each row."""

    @cuda.jit(device=True, inline="always")
    def copy(row, elements):
        for j in range(words):
            elements[j] = row[j]

    if not machine.is_packed(dtype, vec):
        return minimum, copy
    low, high, _, _, least = machine.word_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def widen(row, elements):
        for j in range(words):
            elements[2 * j] = low(row[j])
            elements[2 * j + 1] = high(row[j])

    return least, widen


def deep(dtype: str, vec: int) -> int:
    """Vectors that a thread has in flight: eight, which is 128 bytes, or 128 kB on an SM of 1024 threads; fewer of the
    narrow integers, which are widened at once. Of single elements, eight as well."""
    return 8 if vec == 1 or itemsize(dtype) >= 4 or dtype in ("float16", "bfloat16") else 32 // vec
