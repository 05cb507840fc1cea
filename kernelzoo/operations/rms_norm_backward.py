"""The gradients of an RMS norm."""

import math

from kernelzoo.operations.declared import Input, Output, Scalar, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation


@operation()
class rms_norm_backward:
    """Gradients of an RMS norm's input and weight.

    With ``r = 1 / sqrt(mean(x * x) + eps)`` and ``g = grad * weight`` along the axis ``dim``: ``dx = r * (g - x * r * r
    * mean(g * x))``. ``dweight`` is the sum of ``grad * x * r`` over all rows.

    x: float16, bfloat16, float32 or float64, any rank. weight: as long as the axis, of x's dtype. grad: gradient of the
    output, of x's shape and dtype. Returns (dx, dweight) of x's dtype: dx has x's shape, dweight weight's. Half
    precision is computed in float32. A NaN in a row makes that row of dx NaN, and all of dweight.
    """

    x = Input("outer n inner")
    weight = Input("n")
    grad = Input("outer n inner")
    eps = Scalar(1e-6, also=(0.5,))
    dx = Output("outer n inner")
    dweight = Output("n")
    gradient = "reference"
    domain = dict.fromkeys(("x", "weight", "grad"), largest_without_overflow(3, 1 / 16))
    finite = ("x", "weight", "grad")

    def reference(x: Tensor, weight: Tensor, grad: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        scale = 1 / (x.square().mean(1, keepdim=True) + eps).sqrt()
        unit = x * scale
        pulled = grad * weight[:, None]
        return scale * (pulled - unit * (pulled * unit).mean(1, keepdim=True)), (grad * unit).sum(0).sum(1)

    def error(
        x: Tensor, weight: Tensor, grad: Tensor, eps: float, n: int, unit: float, tiny: float
    ) -> tuple[Tensor, Tensor]:
        """Return the error that rounding can cause.

        A sum of m terms in order, of a row or over rows, makes about sqrt(m) roundings. They are relative to the sum of
        absolute values. A subnormal input or product may count as zero.
        """
        x, weight, grad = x.abs(), weight.abs()[:, None], grad.abs()
        scale = 1 / (x.square().mean(1, keepdim=True) + eps).sqrt()
        normal, pulled = x * scale, grad * weight
        slope = (pulled * normal).mean(1, keepdim=True)
        lost = 1 + weight + grad + (1 + scale) * (1 + pulled.mean(1, keepdim=True) + slope)
        lost = lost + normal * (1 + scale * scale + ((1 + weight + grad) * (1 + normal)).mean(1, keepdim=True))
        of_x = unit * (16 + 2 * math.sqrt(n)) * scale * (pulled + normal * slope) + (scale * lost) * (4 * tiny)
        rows = x.size(0) * x.size(2)
        drift = 16 + math.sqrt(n) + math.sqrt(rows)
        of_weight = unit * drift * (grad * normal).sum((0, 2)) + tiny * (1 + normal + grad * (1 + scale)).sum((0, 2))
        return of_x.nan_to_num_(0.0, 0.0, 0.0), of_weight.nan_to_num_(0.0, 0.0, 0.0)
