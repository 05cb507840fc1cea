"""The gradients of a layer norm."""

import math

from kernelzoo.operations.declared import Input, Output, Scalar, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.layer_norm import normalised_distances, subtract_mean


@operation()
class layer_norm_backward:
    """Gradients of a layer norm's input, weight and bias.

    With ``r = 1 / sqrt(var(x) + eps)``, ``u = (x - mean(x)) * r`` and ``g = grad * weight`` along the axis ``dim``:
    ``dx = r * (g - mean(g) - u * mean(g * u))``. ``dweight`` is the sum of ``grad * u`` over all rows, and ``dbias``
    the sum of ``grad`` over all rows.

    x: float16, bfloat16, float32 or float64, any rank. weight: as long as the axis, of x's dtype. grad: gradient of the
    output, of x's shape and dtype. Returns (dx, dweight, dbias) of x's dtype: dx has x's shape, the others weight's.
    Half precision is computed in float32. A NaN in a row of x makes that row of dx NaN, and all of dweight.
    """

    x = Input("outer n inner")
    weight = Input("n")
    grad = Input("outer n inner")
    eps = Scalar(1e-5, also=(0.5,))
    dx = Output("outer n inner")
    dweight = Output("n")
    dbias = Output("n")
    gradient = "reference"
    domain = dict.fromkeys(("x", "weight", "grad"), largest_without_overflow(3, 1 / 16))
    finite = ("weight", "grad")

    def reference(x: Tensor, weight: Tensor, grad: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        away = subtract_mean(x)
        scale = 1 / (away.square().mean(1, keepdim=True) + eps).sqrt()
        normal, pulled = away * scale, grad * weight[:, None]
        slope = (pulled * normal).mean(1, keepdim=True)
        dx = scale * (pulled - pulled.mean(1, keepdim=True) - normal * slope)
        return dx, (grad * normal).sum(0).sum(1), grad.sum(0).sum(1)

    def error(
        x: Tensor, weight: Tensor, grad: Tensor, eps: float, n: int, unit: float, tiny: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the error that rounding can cause.

        The error of the distances from the mean enters every term. A sum of m terms in order, of a row or over rows,
        makes about sqrt(m) roundings. They are relative to the sum of absolute values. A subnormal input or product may
        count as zero.
        """
        normal, off, scale = normalised_distances(x, eps, n, unit)
        normal, grad = normal.abs(), grad.abs()
        weight = weight.abs()[:, None]
        pulled = grad * weight
        mean, slope, slope_off = ((pulled * other).mean(1, keepdim=True) for other in (1, normal, off))
        size = pulled + mean + normal * slope
        rounds = unit * (16 + 2 * math.sqrt(n))
        wrong = off / normal.clamp(min=1) * size  # the error of the scale, as large as that of the distances
        lost = 1 + weight + grad + (1 + scale) * (1 + mean + slope)
        lost = lost + normal * (1 + scale * scale + ((1 + weight + grad) * (1 + normal)).mean(1, keepdim=True))
        of_x = scale * (rounds * size + wrong + off * slope + normal * slope_off + 4 * tiny * lost)
        drift = unit * (16 + math.sqrt(n) + math.sqrt(x.size(0) * x.size(2)))
        of_weight = drift * (grad * normal).sum((0, 2)) + (grad * off).sum((0, 2))
        of_weight = of_weight + tiny * (1 + normal + grad * (1 + scale)).sum((0, 2))
        of_bias = drift * grad.sum((0, 2)) + tiny * x.size(0) * x.size(2)
        return tuple(error.nan_to_num_(0.0, 0.0, 0.0) for error in (of_x, of_weight, of_bias))  # type: ignore[return-value]
