"""Words of the gradient of a minimum that its kernels share: what is equal to a row's minimum, and what each gets.

Elements are compared as they are computed, half precision in float32; a masked one is NaN, which equals nothing.
"""

import triton
import triton.language as tl

NOTHING_TWICE = tl.constexpr(0x7FFF7FFF)
"""Two NaN of half precision in one word, of float16 and of bfloat16."""


@triton.jit
def quotient(a, b):
    """``a / b`` rounded to nearest; in float32 the plain division of a device is not."""
    return a / b if a.dtype == tl.float64 else tl.div_rn(a, b)


@triton.jit
def shares_of(grad, count, DTYPE: tl.constexpr):
    """What each of count equal minima gets, and what every other element does; NaN if there is none."""
    rest = tl.where(count > 0, grad * 0.0, float("nan"))
    return quotient(grad, count.to(grad.dtype)).to(DTYPE), rest.to(DTYPE)
