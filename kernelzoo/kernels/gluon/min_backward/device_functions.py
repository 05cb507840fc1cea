"""Device functions of a minimum's gradient: what each element that is equal to its row's minimum gets.

Elements are compared as they are computed, half precision in float32; a masked one is NaN, which equals nothing.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def shares_of(grad, count, DTYPE: gl.constexpr):
    """What each of count equal minima gets, and what every other element does; NaN if there is none.

    Divided to nearest: in float32 the plain division of a device is not.
    """
    rest = gl.where(count > 0, grad * 0.0, float("nan"))
    parts = count.to(grad.dtype)
    each = grad / parts if grad.dtype == gl.float64 else gl.div_rn(grad, parts)
    return each.to(DTYPE), rest.to(DTYPE)
