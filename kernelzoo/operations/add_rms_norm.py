"""A residual added, and the RMS norm of the sum: what stands between two layers of a transformer."""

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Dtype, Finfo, Input, Output, Scalar, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.rms_norm import LARGEST, LARGEST_WEIGHT


def half_of_largest(dtype: Finfo, n: int) -> float:
    """Largest input: half of an RMS norm's, as two are added; and the sum must not overflow its dtype."""
    return min(LARGEST(dtype, n), dtype.max) / 2


@operation()
class add_rms_norm:
    """``total = x + residual``, and ``out``, the RMS norm of total along one axis: see ``rms_norm``.

    x, residual: float16, bfloat16, float32 or float64, any common shape. weight: as long as the axis ``dim``. All have
    one dtype. Returns (out, total), contiguous, of x's shape and dtype. total is added in float32 at the least and
    rounded to x's dtype, and out is computed from what was rounded, as two calls of torch do.
    """

    x = Input("outer n inner")
    residual = Input("outer n inner")
    weight = Input("n")
    eps = Scalar(1e-6, also=(0.5,))
    out = Output("outer n inner")
    total = Output("outer n inner")
    gradient = "reference"
    domain = {"x": half_of_largest, "residual": half_of_largest, "weight": LARGEST_WEIGHT}
    finite = ("x", "residual", "weight")

    def reference(x: Tensor, residual: Tensor, weight: Tensor, eps: float, dtype: Dtype) -> tuple[Tensor, Tensor]:
        total = added(x, residual, dtype)
        return total / (total.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None], total

    def error(
        ref: tuple[Tensor, Tensor], weight: Tensor, eps: float, n: int, unit: float, tiny: float
    ) -> tuple[Tensor, Tensor]:
        """The error of ``rms_norm``. The sum is rounded as it must be; a subnormal one may count as zero."""
        out, total = ref
        root = (total.square().mean(1, keepdim=True) + eps).sqrt()
        lost = tiny * ((1 + weight.abs()[:, None]) * (1 + 2 / root) + math.sqrt(n))
        return unit * (8 + math.sqrt(n)) * out.abs() + lost, total.new_full((), 2 * tiny).expand_as(total)


def added(x: Tensor, residual: Tensor, dtype: Dtype) -> Tensor:
    """The sum as torch rounds it, in the precision of x."""
    wide = torch.promote_types(dtype, torch.float32)
    return (x.to(wide) + residual.to(wide)).to(dtype).to(x.dtype)
