"""Numbers as float8_e4m3fn, by its bits."""

import math
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.machine import I32, asm, made_of

FLOAT, (ZERO, WHOLE, NORMAL) = WIDE["float32"], (number("float32", value) for value in (0, 2**23, 2**-6))


@cuda.jit(device=True, inline="always")
def nearest(v):
    """The bits of the nearest float8_e4m3fn, to even between two, of a number below 464 in size or a NaN."""
    if v != v:
        return types.int32(0x7F)
    _, exponent = math.frexp(v)
    if abs(v) < NORMAL:  # all of those have the unit of the next larger ones
        exponent = -5
    units = FLOAT(math.ldexp(abs(v), 4 - exponent)) + WHOLE - WHOLE  # which rounds to a whole number, 16 at most
    bits = types.int32(8 * (exponent + 5)) + types.int32(units)
    return bits + types.int32(0x80) if v < ZERO else bits


def _pair(builder: Any, low: Any, high: Any) -> Any:
    code = "{ .reg .b16 both; cvt.rn.satfinite.e4m3x2.f32 both, $2, $1; cvt.u32.u16 $0, both; }"
    return asm(builder, I32, code, low, high)


pair = made_of(lambda low, high: types.int32(low, high), _pair)
"""``pair(low, high)``: two float32 in the lower 16 bits, of sm_89 and later."""


@cache
def to_float8(size: int, hardware: bool) -> Any:
    """``convert(values, bits)``: numbers as those bits; by the instruction of sm_89 and later, for two, or without."""
    SIZE = size

    @cuda.jit(device=True, inline="always")
    def by_pairs(values, bits):
        for j in range(0, SIZE, 2):
            both = pair(values[j], values[min(j + 1, SIZE - 1)])
            bits[min(j + 1, SIZE - 1)], bits[j] = both >> 8, both & 0xFF

    @cuda.jit(device=True, inline="always")
    def one_by_one(values, bits):
        for j in range(SIZE):
            bits[j] = nearest(values[j])

    return by_pairs if hardware else one_by_one
