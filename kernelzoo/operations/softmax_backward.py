"""The gradient of a softmax."""

import math

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Generator, Input, Output, Tensor, largest_without_overflow
from kernelzoo.operations.declaring import operation


@operation()
class softmax_backward:
    """Gradient of a softmax: ``y * (grad - sum(grad * y))`` of each row.

    grad: gradient of the softmax's output, float16, bfloat16, float32 or float64, any rank. y: that output, of grad's
    shape and dtype, and never infinite. dim: the axis of the softmax. Half precision is accumulated in float32.
    Returns a contiguous tensor of grad's shape and dtype. A NaN in a row of grad or y makes all of that row NaN.
    """

    grad = Input("outer n inner")
    y = Input("outer n inner")
    out = Output("outer n inner")
    gradient = "reference"
    domain = dict.fromkeys(("grad", "y"), largest_without_overflow(3, 0.5))
    finite = ("y",)  # torch's kernels treat an infinite y as NaN or as infinity

    def reference(grad: Tensor, y: Tensor) -> Tensor:
        return (grad - (grad * y).sum(1, keepdim=True)) * y

    def error(grad: Tensor, y: Tensor, n: int, unit: float, tiny: float) -> Tensor:
        """Return the error that rounding can cause.

        With unit roundoff u, the sum of products is off by u * (8 + sqrt(n) / 2) * sum(|grad * y|). The square root is
        the random walk of n additions in order. The difference and the last product add four roundings. A subnormal
        product may count as zero.
        """
        products = grad * y
        size = products.abs().sum(1, keepdim=True)
        off = size.mul_(unit * (8 + math.sqrt(n) / 2)).add_(n * tiny)
        around = products.sum(1, keepdim=True).abs() + grad.abs()
        return around.mul_(4 * unit).add_(off).mul_(y.abs()).nan_to_num_(0.0, 0.0, 0.0)

    def others(y: Tensor, n: int, generator: Generator) -> tuple[Tensor]:
        """Return the other input: a softmax of y, in which one element is about half of each row's sum."""
        place = torch.randint(0, n, (y.size(0), 1, y.size(2)), generator=generator, device=generator.device)
        logits = y.float() if y.itemsize < 4 else y
        return (logits.scatter(1, place.to(y.device), math.log(n) + 1).softmax(1),)
