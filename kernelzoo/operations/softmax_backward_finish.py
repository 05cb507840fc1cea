"""A part of a softmax's gradient, from the number that its whole row has in common."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernelzoo.operations.arguments import FLOATS
from kernelzoo.operations.declared import WIDE, Input, Output
from kernelzoo.operations.declaring import operation

if TYPE_CHECKING:
    import torch

LARGEST = 3.4028234663852886e38
"""Of float32."""


def _largest(dtype: torch.finfo, n: int) -> float:
    """A difference times a third number must not overflow in float32 (of float64, in float64)."""
    return math.sqrt(max(dtype.max, LARGEST)) / 2


@operation(dtypes=FLOATS)
class softmax_backward_finish:
    """Gradient of a part of each row of a softmax, by the total of the whole row: ``y * (grad - total)``.

    grad: gradient of the softmax's output, float16, bfloat16, float32 or float64, any rank. y: that output, of grad's
    shape and dtype, which no softmax makes infinite. total: the row's ``vecdot(grad, y)``, without the axis ``dim``,
    float32, of float64 float64. Returns a contiguous tensor of grad's shape and dtype.
    """

    grad = Input("outer n inner")
    y = Input("outer n inner")
    total = Input("outer inner", dtype=WIDE)
    out = Output("outer n inner")
    domain = MappingProxyType({"grad": _largest, "y": _largest, "total": _largest})
    finite = ("y",)

    @staticmethod
    def reference(grad: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        return (grad - total.unsqueeze(1)) * y

    @staticmethod
    def error(grad: torch.Tensor, y: torch.Tensor, total: torch.Tensor, unit: float, tiny: float) -> torch.Tensor:
        """Of the difference and of the product, whose operands may count as zero where they are subnormal."""
        around = total.abs().unsqueeze(1) + grad.abs()
        return around.mul_(4 * unit).add_(tiny).mul_(y.abs()).add_(tiny).nan_to_num_(0.0, 0.0, 0.0)

    @staticmethod
    def others(grad: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A softmax of y's own values, and the total that belongs to both."""
        weights = (y.float() if y.itemsize < 4 else y).softmax(1)
        return weights, (grad.to(weights.dtype) * weights).sum(1)
