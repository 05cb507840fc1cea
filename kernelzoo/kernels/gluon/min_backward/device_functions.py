"""Device functions of a minimum's gradient: what each element that is equal to its row's minimum gets.

Elements are compared as they are computed, half precision in float32; a masked one is NaN, which equals nothing.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from kernelzoo.kernels.gluon.device_functions import row_start


@gluon.jit
def load_rows(x, group, place, outer, inner, there, WIDE: gl.constexpr, ACROSS: gl.constexpr):
    """What there is one of to each row, as it is computed."""
    return gl.load(x + row_start(group, place, outer, inner, 1, ACROSS), there, other=0).to(WIDE)


@gluon.jit
def shares_of(grad, count, DTYPE: gl.constexpr):
    """What each of count equal minima gets, and what every other element does; NaN if there is none.

    Divided to nearest: in float32 the plain division of a device is not.
    """
    rest = gl.where(count > 0, grad * 0.0, float("nan"))
    parts = count.to(grad.dtype)
    each = grad / parts if grad.dtype == gl.float64 else gl.div_rn(grad, parts)
    return each.to(DTYPE), rest.to(DTYPE)
