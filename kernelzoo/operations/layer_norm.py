"""Layer norm: ``(x - mean) / sqrt(variance + eps) * weight + bias`` of each row."""

import math
from functools import partial

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Input, Output, Sample, Scalar, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.rms_norm import LARGEST_WEIGHT


@operation()
class layer_norm:
    """``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`` along one axis, as ``torch.nn.functional.layer_norm``.

    var is the mean squared distance from the mean. x: float16, bfloat16, float32 or float64, any rank. weight, bias: as
    long as the axis ``dim``, of x's dtype. eps: a float. Half precision is computed in float32 and rounded once.
    Returns a contiguous tensor of x's shape and dtype. A row with a NaN or an infinity is NaN.
    """

    x = Input("outer n inner")
    weight = Input("n")
    bias = Input("n")
    eps = Scalar(1e-5, also=(0.5,))
    out = Output("outer n inner")
    gradient = "layer_norm_backward"
    domain = {"x": largest_without_overflow(2, 0.5), "weight": LARGEST_WEIGHT}  # x - mean is up to twice as large
    finite = ("weight",)  # an infinite weight times a value that underflows would be NaN

    def reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        away = subtract_mean(x)
        return away / (away.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None] + bias[:, None]

    def error(
        ref: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: float, n: int, unit: float, tiny: float
    ) -> Tensor:
        """Return the error of each element's distance from the mean, times its weight, and of the last addition.

        A subnormal input or product may count as zero.
        """
        normal, off, scale = normalised_distances(x, eps, n, unit)
        weight = weight.abs()[:, None]
        lost = tiny * ((1 + weight) * (1 + scale) + math.sqrt(n))
        return (weight * off + unit * (4 * weight * normal.abs() + 2 * ref.abs()) + lost).nan_to_num_(0.0, 0.0, 0.0)

    def samples() -> tuple[Sample, ...]:
        """Return rows far from zero. For these, mean(x * x) - mean(x)^2 is an inaccurate variance."""
        return tuple(
            Sample(f"{dtype}-far-from-zero", (8, 300), partial(rows_far_from_zero, dtype))
            for dtype in ("float32", "float64")
        )


def subtract_mean(x: Tensor) -> Tensor:
    """Return x - mean of each row. The mean is clamped to the row's range, so that a row of equal elements gives 0."""
    mean = x.mean(1, keepdim=True)
    if x.size(1):
        mean = mean.clamp(x.amin(1, keepdim=True), x.amax(1, keepdim=True))
    return x - mean


def normalised_distances(x: Tensor, eps: float, n: int, unit: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return (x - mean) * scale, its possible rounding error, and scale = 1 / sqrt(variance + eps).

    A sum in order has an error of about sqrt(n) roundings, relative to its terms' absolute values. The mean's error
    shifts all distances equally. The square of the mean's error is added to the variance.
    """
    away = subtract_mean(x)
    scale = 1 / (away.square().mean(1, keepdim=True) + eps).sqrt()
    normal = away * scale
    moved = unit * (8 + math.sqrt(n)) * x.abs().mean(1, keepdim=True) * scale
    return normal, moved + normal.abs() * (unit * (8 + math.sqrt(n)) + moved.square().clamp_(max=1)), scale


def rows_far_from_zero(dtype: str) -> tuple[Tensor, ...]:
    """Return rows with the means 1000, 2000, ... and a deviation of 1, and weights and biases."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 300, dtype=torch.float64, generator=generator) + 1000 * torch.arange(1.0, 9)[:, None]
    weight, bias = torch.randn(2, 300, dtype=torch.float64, generator=generator)
    return tuple(tensor.to(getattr(torch, dtype)) for tensor in (x, weight, bias))
