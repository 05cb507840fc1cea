"""The sum of x and a residual, and its RMS norm, as between two layers of a transformer."""

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Dtype, Finfo, Input, Output, Scalar, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.rms_norm import LARGEST, LARGEST_WEIGHT


def half_of_largest_norm_input(dtype: Finfo, row_length: int) -> float:
    """Return the largest legal x or residual: half of the largest sum that ``rms_norm`` and the dtype allow."""
    return min(LARGEST(dtype, row_length), dtype.max) / 2


@operation()
class add_rms_norm:
    """``total = x + residual``, and ``out``, the RMS norm of total along one axis; see ``rms_norm``.

    x, residual: float16, bfloat16, float32 or float64, any shape, the same for both. weight: as long as the axis
    ``dim``. All have one dtype. Returns (out, total), contiguous, of x's shape and dtype. total is added in float32, or
    float64 for float64, and rounded to x's dtype. out is computed from the rounded total, as by two calls of torch.
    """

    x = Input("outer n inner")
    residual = Input("outer n inner")
    weight = Input("n")
    eps = Scalar(1e-6, also=(0.5,))
    out = Output("outer n inner")
    total = Output("outer n inner")
    gradient = "reference"
    domain = {"x": half_of_largest_norm_input, "residual": half_of_largest_norm_input, "weight": LARGEST_WEIGHT}
    finite = ("x", "residual", "weight")

    def reference(x: Tensor, residual: Tensor, weight: Tensor, eps: float, dtype: Dtype) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(dtype, torch.float32)
        total = (x.to(wide) + residual.to(wide)).to(dtype).to(x.dtype)  # rounded as torch does
        return total / (total.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None], total

    def error(
        ref: tuple[Tensor, Tensor], weight: Tensor, eps: float, n: int, unit: float, tiny: float
    ) -> tuple[Tensor, Tensor]:
        """Return the error of ``rms_norm``. The only error of total is that a subnormal may count as zero."""
        out, total = ref
        root = (total.square().mean(1, keepdim=True) + eps).sqrt()
        lost = tiny * ((1 + weight.abs()[:, None]) * (1 + 2 / root) + math.sqrt(n))
        return unit * (8 + math.sqrt(n)) * out.abs() + lost, total.new_full((), 2 * tiny).expand_as(total)
