"""The gradient of a cross entropy."""

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Input, Output, Scalar, Tensor
from kernelzoo.operations.declaring import operation


@operation()
class cross_entropy_backward:
    """Gradient of a cross entropy's logits: ``grad * (softmax(x) - one_hot(label))`` of each row.

    x: logits, float16, bfloat16, float32 or float64, any rank; the classes lie along the axis ``dim``. labels: int64,
    of x's shape without that axis. grad: gradient of the loss, of labels' shape and x's dtype. Half precision is
    computed in float32. Returns a contiguous tensor of x's shape and dtype. A row whose label is ``ignore_index`` is 0.
    Any other row is NaN if the logits have a NaN or +inf, or are all -inf. Labels are as for ``cross_entropy``: if one
    is out of range on a GPU, its row is NaN.
    """

    x = Input("outer n inner")
    labels = Input("outer inner", dtype="int64", low=0, high="n", also=("ignore_index",), checked=True)
    grad = Input("outer inner")
    ignore_index = Scalar(-100, also=(0,))
    out = Output("outer n inner")
    gradient = "reference"
    domain = {"grad": lambda dtype, n: dtype.max}
    finite = ("grad",)  # an infinite gradient times a probability that underflows would be NaN

    def reference(x: Tensor, labels: Tensor, grad: Tensor, ignore_index: int) -> Tensor:
        ignored = (labels == ignore_index)[:, None]
        right = torch.arange(x.size(1), device=x.device)[:, None] == labels[:, None]
        return (grad[:, None] * (x.softmax(1) - right.to(x.dtype))).masked_fill(ignored, 0)

    def error(x: Tensor, labels: Tensor, grad: Tensor, ignore_index: int, n: int, unit: float, tiny: float) -> Tensor:
        """Return |grad| times the error of a softmax, and of a difference with two roundings, which may cancel."""
        depth = (x.amax(1, keepdim=True) - x).clamp_(0, 1100).nan_to_num_(0)
        probability = x.softmax(1).nan_to_num_(0)
        share = depth.mul_(4).add_(16 + math.sqrt(n) / 2).mul_(probability).add_(2 * (1 - probability).abs())
        size = grad.abs().nan_to_num_(0, 0)[:, None]
        return (share.mul_(unit).add_(2 * tiny) * size).masked_fill_((labels == ignore_index)[:, None], 0)
