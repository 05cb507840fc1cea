"""Conversion of numbers to float8_e4m3fn, as bits."""

import math
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.machine import I32, asm, make_intrinsic

FLOAT, (ZERO, WHOLE, NORMAL) = WIDE["float32"], (constant("float32", value) for value in (0, 2**23, 2**-6))


@cuda.jit(device=True, inline="always")
def nearest_float8(v):
    """Return the bits of the nearest float8_e4m3fn, ties to even. v must be below 464 in magnitude, or NaN."""
    if v != v:
        return types.int32(0x7F)
    _, exponent = math.frexp(v)
    if abs(v) < NORMAL:  # subnormals have the spacing of the smallest normal numbers
        exponent = -5
    units = FLOAT(math.ldexp(abs(v), 4 - exponent)) + WHOLE - WHOLE  # rounds to a whole number, at most 16
    bits = types.int32(8 * (exponent + 5)) + types.int32(units)
    return bits + types.int32(0x80) if v < ZERO else bits


def _emit_pair_conversion(builder: Any, low: Any, high: Any) -> Any:
    code = "{ .reg .b16 both; cvt.rn.satfinite.e4m3x2.f32 both, $2, $1; cvt.u32.u16 $0, both; }"
    return asm(builder, I32, code, low, high)


convert_pair = make_intrinsic(lambda low, high: types.int32(low, high), _emit_pair_conversion)
"""``convert_pair(low, high)``: two float32 as float8 in the lower 16 bits. It needs sm_89 or later."""


@cache
def float8_converter(size: int, hardware: bool) -> Any:
    """Return ``convert(values, bits)`` for ``size`` numbers. hardware: convert pairs by sm_89's instruction."""
    SIZE = size

    @cuda.jit(device=True, inline="always")
    def convert_pairs(values, bits):
        for j in range(0, SIZE, 2):
            both = convert_pair(values[j], values[min(j + 1, SIZE - 1)])
            bits[min(j + 1, SIZE - 1)], bits[j] = both >> 8, both & 0xFF

    @cuda.jit(device=True, inline="always")
    def convert_each(values, bits):
        for j in range(SIZE):
            bits[j] = nearest_float8(values[j])

    return convert_pairs if hardware else convert_each
