"""Pairs of half-precision numbers, packed in one 32-bit register each, and unpacked only for computation."""

import triton
import triton.language as tl


@triton.jit
def padding_word(DTYPE: tl.constexpr):
    """Return an int32 that packs two half-precision -inf."""
    return -0x7F0080 if tl.bfloat16 == DTYPE else -0x3FF0400


@triton.jit
def unpack_halves(words, DTYPE: tl.constexpr):
    """Return the two half-precision numbers in each int32, as two float32."""
    if tl.bfloat16 == DTYPE:  # the upper half of a float32
        low = (words << 16).to(tl.float32, bitcast=True)
        high = (words & -65536).to(tl.float32, bitcast=True)
    else:
        low = words.to(tl.int16).to(DTYPE, bitcast=True).to(tl.float32)
        high = (words >> 16).to(tl.int16).to(DTYPE, bitcast=True).to(tl.float32)
    return low, high


@triton.jit
def pack_halves(low, high, DTYPE: tl.constexpr):
    """Round two numbers to half precision, and pack them into an int32."""
    upper = high.to(DTYPE).to(tl.int16, bitcast=True).to(tl.int32) << 16
    return upper | (low.to(DTYPE).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF)


@triton.jit
def delay_unpacking(words, value, always_false):
    """Return ``words`` unchanged, but make the compiler unpack them only after it has computed ``value``.

    Unpacked earlier, they would take twice the registers. ``always_false`` is False, which the compiler can't know.
    """
    return words ^ -((value < 0) & always_false).to(tl.int32)


@triton.jit
def larger_bfloat16(a, b):
    return tl.inline_asm_elementwise("max.bf16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)


@triton.jit
def larger_float16(a, b):
    return tl.inline_asm_elementwise("max.f16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)
