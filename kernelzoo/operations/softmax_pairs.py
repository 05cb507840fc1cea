"""The (max, sum) state of a part of a softmax's row."""

import math

from kernelzoo.operations.declared import WIDE, Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation()
class softmax_pairs:
    """The (max, sum) state of each row along one axis: ``maximum``, and ``total = sum(exp(x - maximum))``.

    x: float16, bfloat16, float32 or float64, any rank. Returns two tensors without that axis, in float32, or float64
    for float64. A row of only -inf has the state (-inf, 0), and a row with a NaN or +inf (NaN, NaN). If a row is split,
    ``softmax_merge`` merges its parts' states, and ``softmax_finish`` then computes the softmax of each part.
    """

    x = Input("outer n inner")
    maximum = Output("outer inner", dtype=WIDE)
    total = Output("outer inner", dtype=WIDE)

    def reference(x: Tensor) -> tuple[Tensor, Tensor]:
        top = x.amax(1, keepdim=True)
        total = (x - top.where(top != -math.inf, 0)).exp_().sum(1)
        return top[:, 0].masked_fill(total.isnan(), math.nan), total

    def error(ref: tuple[Tensor, ...], x: Tensor, n: int, unit: float) -> tuple[Tensor, Tensor]:
        """Return 0 for the maximum. Each exponential has the error as in ``softmax``, and so has the sum."""
        depth = (x.amax(1, keepdim=True) - x).clamp_(0, 1100).nan_to_num_(0)
        depths = (depth * (-depth).exp_()).sum(1)
        allowed = depths.mul_(4 * unit).add_(ref[1].nan_to_num(0.0), alpha=unit * (16 + math.sqrt(n) / 2))
        return ref[0].new_zeros(()).expand_as(ref[0]), allowed
