"""Functions of the host's kernels: conversions of elements, the exponential, and sums with rounding errors.

LLVM may fuse multiplications with additions ('contract') only in the exponential. It may reorder no sum.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload


def select_code_by_type(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a function for compiled code. The decorated function receives the argument types, and returns the Python
    function to compile for them. ``options``: Numba's options for compiling it."""

    def decorate(choose: Callable[..., Any]) -> Any:
        def function(*arguments: Any) -> Any:
            raise NotImplementedError("compiled only")

        overload(function, jit_options=options)(choose)
        return function

    return decorate


# Bits and conversions


@intrinsic
def as_bits(typing_context, value):
    """Return the bits of a float as a signed integer."""
    integer = types.Integer.from_bitwidth(value.bitwidth, True)

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(integer))

    return integer(value), generate


@intrinsic
def as_float(typing_context, bits):
    real = {32: types.float32, 64: types.float64}[bits.bitwidth]

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(real))

    return real(bits), generate


@intrinsic
def _half_to_float32(typing_context, element):
    """Convert the bits of a float16 to float32, by the processor's instruction."""

    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(element), generate


@intrinsic
def _float32_to_half(typing_context, value):
    """Convert a float32 to the bits of the nearest float16, by the processor's instruction."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.int16(value), generate


@cache
def has_half_conversion() -> bool:
    """Whether the processor that Numba compiles for has instructions that convert from and to float16."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith("aarch64") or "+f16c" in features.split(",")


@select_code_by_type()
def widen(element):
    """Return an element in its accumulator dtype: narrow floats as float32."""
    if element == types.uint16:  # bfloat16: the upper half of a float32
        return lambda element: as_float(np.int32(np.uint32(element) << np.uint32(16)))
    if element == types.int16:
        return (lambda element: _half_to_float32(element)) if has_half_conversion() else _from_half
    return lambda element: element


def _from_half(element):
    """Convert float16 to float32 by integer operations, which LLVM vectorises."""
    sign = np.int32((np.int32(element) & np.int32(0x8000)) << np.int32(16))
    magnitude = np.int32((np.int32(element) & np.int32(0x7FFF)) << np.int32(13))
    rebias = np.int32(112 << 23)
    if magnitude >= np.int32(0x7C00 << 13):  # infinity or NaN: give it the largest exponent of float32
        wide = np.int32(magnitude + np.int32(2 * rebias))
    else:
        wide = np.int32(magnitude + rebias)
    # Zero and subnormals: make this the fraction of a number from 2^-14 on, and then subtract 2^-14.
    small = as_bits(np.float32(as_float(np.int32(magnitude + np.int32(113 << 23))) - np.float32(2.0**-14)))
    return as_float(np.int32((small if magnitude < np.int32(1 << 23) else wide) | sign))


def _to_bfloat16(value, like):
    bits = as_bits(value)
    odd = np.int32((bits >> np.int32(16)) & np.int32(1))
    rounded = np.int32(np.int32(bits + np.int32(0x7FFF) + odd) >> np.int32(16))
    return np.uint16(np.int32(0x7FC0) if value != value else rounded)


@select_code_by_type()
def round_like(value, like):
    """Round a float to the type of the element ``like``, to nearest, ties to even. Overflow gives infinity, or in
    float8 the largest number."""
    if like == types.uint16:
        return _to_bfloat16
    if like == types.int16:
        return (lambda value, like: _float32_to_half(value)) if has_half_conversion() else _to_half
    if like == types.uint8:
        return _to_float8
    return lambda value, like: value


def _to_float8(value, like):
    """Round to float8_e4m3fn. It has no infinity: 0x7E is its largest number, 448, and 0x7F is NaN."""
    bits = as_bits(value)
    sign = np.int32((bits >> np.int32(24)) & np.int32(0x80))
    magnitude = np.int32(bits & np.int32(0x7FFFFFFF))
    odd = np.int32((magnitude >> np.int32(20)) & np.int32(1))
    normal = np.int32(np.int32(magnitude - np.int32(120 << 23) + np.int32(0x7FFFF) + odd) >> np.int32(20))
    # Below 2^-6, float8 numbers are multiples of 2^-9, as float32 numbers from 2^14 on are: adding 2^14 rounds.
    small = np.int32(as_bits(np.float32(as_float(magnitude) + np.float32(2.0**14))) - np.int32(141 << 23))
    eight = small if magnitude < np.int32(121 << 23) else min(normal, np.int32(0x7E))
    return np.uint8((np.int32(0x7F) if value != value else eight) | sign)


def _to_half(value, like):
    bits = as_bits(value)
    sign = np.int32((bits >> np.int32(16)) & np.int32(0x8000))
    magnitude = np.int32(bits & np.int32(0x7FFFFFFF))
    odd = np.int32((magnitude >> np.int32(13)) & np.int32(1))
    normal = np.int32(np.int32(magnitude - np.int32(112 << 23) + np.int32(0xFFF) + odd) >> np.int32(13))
    normal = min(normal, np.int32(0x7C00))  # for too large numbers and infinity
    small = np.int32(as_bits(np.float32(as_float(magnitude) + np.float32(0.5))) - np.int32(126 << 23))
    half = small if magnitude < np.int32(113 << 23) else normal
    return np.int16((np.int32(0x7E00) if value != value else half) | sign)


# The exponential


@select_code_by_type(fastmath={"contract"})
def exponential(t):
    """Return e^t for t up to 88, within 3 units of roundoff; 0 below the smallest normal number, NaN for NaN.

    Let t = k ln 2 + r with integer k and |r| <= ln(2)/2. Then e^t = 2^k e^r, and a short Taylor series gives e^r.
    Adding 1.5 times 2^(bits of the fraction) rounds t / ln 2 to k. The sum's low bits then are k, and are shifted into
    the exponent. ln 2 is split in two parts. The first is so short that its product with k is exact.
    """
    real, integer, fraction = (np.float32, np.int32, 23) if t == types.float32 else (np.float64, np.int64, 52)
    bias = integer(np.finfo(real).maxexp - 1)
    lowest = real(np.finfo(real).minexp * np.log(2.0))
    round_to_integer = real(1.5 * 2.0**fraction)
    log2_e = real(1 / np.log(2.0))
    ln2_high = real(0.693359375) if real is np.float32 else real(0.6931471803691238)
    ln2_low = real(-2.12194440054690583e-4) if real is np.float32 else real(1.9082149292705877e-10)
    shift = integer(fraction)
    one, zero = real(1), real(0)
    c2, c3, c4, c5, c6, c7 = (real(1 / k) for k in (2, 6, 24, 120, 720, 5040))

    if real is np.float32:

        def exp(t):
            shifted = t * log2_e + round_to_integer
            k = shifted - round_to_integer
            r = t - k * ln2_high - k * ln2_low
            p = c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * c7))))
            power = as_float(integer(integer(as_bits(shifted) + bias) << shift))
            return zero if t < lowest else (one + (r + r * r * p)) * power

    else:
        c8, c9, c10, c11, c12, c13 = (real(1 / k) for k in (40320, 362880, 3628800, 39916800, 479001600, 6227020800))

        def exp(t):
            shifted = t * log2_e + round_to_integer
            k = shifted - round_to_integer
            r = t - k * ln2_high - k * ln2_low
            p = c8 + r * (c9 + r * (c10 + r * (c11 + r * (c12 + r * c13))))
            p = c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * (c7 + r * p)))))
            power = as_float(integer(integer(as_bits(shifted) + bias) << shift))
            return zero if t < lowest else (one + (r + r * r * p)) * power

    return exp


# Small pieces


@select_code_by_type()
def as_sortable(bits):
    """Map a float's bits to a signed integer that sorts like the float. Applied twice, it returns the bits."""
    integer = getattr(np, f"int{bits.bitwidth}")
    sign_at, magnitude = integer(bits.bitwidth - 1), integer(np.iinfo(integer).max)
    return lambda bits: integer(bits ^ ((bits >> sign_at) & magnitude))


@select_code_by_type()
def empty(count, x):
    """Return an uninitialised array of x's accumulator dtype."""
    real = np.float64 if x.dtype == types.float64 else np.float32
    return lambda count, x: np.empty(count, real)


@select_code_by_type()
def array_if_same_type(array, like):
    """Return ``array`` if it has ``like``'s type, else ``like``. The choice is made while the code is compiled."""
    return (lambda array, like: array) if array == like else (lambda array, like: like)


@njit
def two_sum(total, carry, term):
    """Return total + term, and carry + the rounding error of total + term (Knuth, TAOCP 2, 4.2.2)."""
    new = total + term
    back = new - total
    return new, carry + ((total - (new - back)) + (term - back))


@njit
def add_carry(total, carry):
    """Return total + carry. If the sum is NaN or infinite, ``carry`` is NaN and is ignored."""
    return total + carry if carry == carry else total


@njit
def offset(row, lanes, group_stride, lane_stride):
    """Return the offset of a row's first element. It is unsigned, because signed indices prevent vectorisation."""
    return np.uint64(row // lanes * group_stride + row % lanes * lane_stride)


@select_code_by_type()
def zero_sum(x):
    """Return 0 in x's accumulator dtype."""
    real = np.float64 if x.dtype == types.float64 else np.float32
    return lambda x: real(0)
