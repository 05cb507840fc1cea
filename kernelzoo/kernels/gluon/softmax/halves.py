"""Half precision, two numbers to a register: words of 32 bits, which are unpacked where they are computed with."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def words_at(pointer):
    """The words at the place of a number."""
    return pointer.to(gl.pointer_type(gl.int32), bitcast=True)


@gluon.jit
def empty_word(DTYPE: gl.constexpr):
    """Two of -inf, as the int32 that holds them."""
    return -0x7F0080 if gl.bfloat16 == DTYPE else -0x3FF0400


@gluon.jit
def halves(words, DTYPE: gl.constexpr):
    """The two numbers in each word, in float32."""
    if gl.bfloat16 == DTYPE:  # the upper half of a float32
        low = (words << 16).to(gl.float32, bitcast=True)
        high = (words & -65536).to(gl.float32, bitcast=True)
    else:
        low = words.to(gl.int16).to(DTYPE, bitcast=True).to(gl.float32)
        high = (words >> 16).to(gl.int16).to(DTYPE, bitcast=True).to(gl.float32)
    return low, high


@gluon.jit
def in_line(low, high, LAYOUT: gl.constexpr):
    """The numbers of words, which follow each other in memory; LAYOUT has them on the same threads."""
    return gl.convert_layout(gl.reshape(gl.join(low, high), [2 * low.shape[0]]), LAYOUT)


@gluon.jit
def not_before(words, value, never):
    """words, which the compiler can't unpack before it has value: it would keep them unpacked, in twice the registers.

    never is False, but not for all that the compiler knows.
    """
    return words ^ -((value < 0) & never).to(gl.int32)
