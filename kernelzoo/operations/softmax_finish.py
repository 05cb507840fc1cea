"""Softmax of a part of a row, from the (max, sum) state of the whole row."""

from kernelzoo.operations.declared import WIDE, Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation()
class softmax_finish:
    """Softmax of a part of each row, from the row's (max, sum) state: ``exp(min(x - maximum, 0)) / total``.

    x: float16, bfloat16, float32 or float64, any rank. maximum, total: the state from ``softmax_pairs`` or
    ``softmax_merge``, without the axis ``dim``. A total is 1 or more, or 0 if the maximum is -inf. Returns a contiguous
    tensor of x's shape and dtype. An element that is NaN in x is NaN. If a row's state has a NaN, or is that of a row
    of -inf, all of the row is NaN.
    """

    x = Input("outer n inner")
    maximum = Input("outer inner", dtype=WIDE)
    total = Input("outer inner", dtype=WIDE)
    out = Output("outer n inner")
    domain = {"total": lambda dtype, n: (1, dtype.max)}  # the term of the maximum is 1

    def reference(x: Tensor, maximum: Tensor, total: Tensor) -> Tensor:
        return (x - maximum.unsqueeze(1)).clamp_(max=0).exp_() / total.unsqueeze(1)

    def error(ref: Tensor, x: Tensor, maximum: Tensor, unit: float, tiny: float) -> Tensor:
        """Return the errors of a division and an exponential, which grows with maximum - x. Both may flush to zero."""
        depth = (maximum.unsqueeze(1) - x).clamp_(0, 1100).nan_to_num_(0)
        return depth.mul_(4 * unit).add_(8 * unit).mul_(ref.abs()).add_(2 * tiny).nan_to_num_(0.0, 0.0, 0.0)

    def others(x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the other inputs: the maximum of x, and the sum of exp(x - maximum)."""
        wide = x.float() if x.itemsize < 4 else x
        top = wide.amax(1)
        return top, (wide - top.unsqueeze(1)).exp_().sum(1)
