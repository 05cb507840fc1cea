"""RMS norm: ``x / sqrt(mean(x * x) + eps) * weight`` of each row."""

import math

from kernelzoo.operations.declared import Input, Output, Scalar, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation

LARGEST = largest_without_overflow(2)
LARGEST_WEIGHT = largest_without_overflow(2, summed=False)
"""The largest weight. Its product with a value that underflows is still small."""


@operation()
class rms_norm:
    """``x / sqrt(mean(x * x) + eps) * weight`` along one axis, as ``torch.nn.functional.rms_norm`` over the last.

    x: float16, bfloat16, float32 or float64, any rank. weight: as long as the axis ``dim``, of x's dtype. eps: a float,
    whose default does not depend on the dtype, unlike torch's. Half precision is computed in float32 and rounded once.
    Returns a contiguous tensor of x's shape and dtype. A row with a NaN is NaN. A row with an infinity is NaN at the
    infinity, and NaN or 0 at other elements: torch's own kernels differ.
    """

    x = Input("outer n inner")
    weight = Input("n")
    eps = Scalar(1e-6, also=(0.5,))
    out = Output("outer n inner")
    gradient = "rms_norm_backward"
    domain = {"x": LARGEST, "weight": LARGEST_WEIGHT}
    finite = ("x", "weight")  # an infinite weight times a value that underflows would be NaN

    def reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return x / (x.square().mean(1, keepdim=True) + eps).sqrt() * weight[:, None]

    def error(ref: Tensor, x: Tensor, weight: Tensor, eps: float, n: int, unit: float, tiny: float) -> Tensor:
        """Return the error that rounding can cause.

        A sum in order has an error of about sqrt(n) roundings, which the root halves. A few other roundings follow. A
        subnormal input or product may count as zero, before the next factor makes it larger.
        """
        root = (x.square().mean(1, keepdim=True) + eps).sqrt()
        lost = tiny * ((1 + weight.abs()[:, None]) * (1 + 1 / root) + math.sqrt(n))
        return unit * (8 + math.sqrt(n)) * ref.abs() + lost
