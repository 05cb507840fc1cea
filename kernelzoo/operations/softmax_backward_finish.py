"""The gradient of a softmax in a part of a row, from the total of the whole row."""

from kernelzoo.operations.declared import WIDE, Input, Output, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation


@operation()
class softmax_backward_finish:
    """Gradient of a softmax in a part of each row, from the row's total: ``y * (grad - total)``.

    grad: gradient of the softmax's output, float16, bfloat16, float32 or float64, any rank. y: that output, of grad's
    shape and dtype, and never infinite. total: the row's ``vecdot(grad, y)``, without the axis ``dim``, in float32, or
    float64 for float64. Returns a contiguous tensor of grad's shape and dtype.
    """

    grad = Input("outer n inner")
    y = Input("outer n inner")
    total = Input("outer inner", dtype=WIDE)
    out = Output("outer n inner")
    domain = dict.fromkeys(("grad", "y", "total"), largest_without_overflow(2, 0.5, summed=False))
    finite = ("y",)

    def reference(grad: Tensor, y: Tensor, total: Tensor) -> Tensor:
        return (grad - total.unsqueeze(1)) * y

    def error(grad: Tensor, y: Tensor, total: Tensor, unit: float, tiny: float) -> Tensor:
        """Return the error of the difference and the product. A subnormal operand may count as zero."""
        around = total.abs().unsqueeze(1) + grad.abs()
        return around.mul_(4 * unit).add_(tiny).mul_(y.abs()).add_(tiny).nan_to_num_(0.0, 0.0, 0.0)

    def others(grad: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the other inputs: a softmax of y, and the sum of its products with the drawn gradient."""
        weights = (y.float() if y.itemsize < 4 else y).softmax(1)
        return weights, (grad.to(weights.dtype) * weights).sum(1)
