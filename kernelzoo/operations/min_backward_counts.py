"""The number of minima in a part of a row, which the gradient of a minimum needs."""

from kernelzoo.operations.declared import WIDE, Input, Output, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.min_backward import min_backward


@operation()
class min_backward_counts:
    """Number of elements of each row, along one axis, that equal the row's y: ``(x == y).sum()``.

    x: float16, bfloat16, float32 or float64, any rank. y: one number per row, of x's dtype, without the axis ``dim``.
    Returns a tensor of y's shape, float32, or float64 for float64. A float32 count is exact to 2^24, and above that
    rounded to nearest. A NaN equals nothing. If a row is split, add up the counts of its parts (``vecdot`` with ones).
    ``min_backward_finish`` then computes the gradient in each part.
    """

    x = Input("outer n inner")
    y = Input("outer inner")
    count = Output("outer inner", dtype=WIDE)

    sample = min_backward.sample

    def reference(x: Tensor, y: Tensor) -> Tensor:
        return (x == y.unsqueeze(1)).sum(1).to(x.dtype)

    def error(ref: Tensor, unit: float) -> Tensor:
        """Return one rounding of a count."""
        return ref * unit

    def others(x: Tensor) -> tuple[Tensor]:
        """Return the other input: the minimum of x."""
        return (x.amin(1),)
