"""The gradient of a minimum in a part of a row, from the number of minima in the whole row."""

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import WIDE, Generator, Input, Output, Tensor
from kernelzoo.operations.declaring import operation
from kernelzoo.operations.min_backward import min_backward


@operation()
class min_backward_finish:
    """Gradient of a minimum in a part of each row: ``grad / count`` where x equals y. Others get ``grad * 0 / count``.

    x: float16, bfloat16, float32 or float64, any rank. y, grad: the minimum of the whole row and its gradient, of x's
    dtype, without the axis ``dim``. count: the number of minima in the whole row, of y's shape; float32, or float64 for
    float64; see ``min_backward_counts``. A count is at least 1. Only a row with a NaN has the count 0, and becomes NaN.
    Returns a contiguous tensor of x's shape and dtype.
    """

    x = Input("outer n inner")
    y = Input("outer inner")
    grad = Input("outer inner")
    count = Input("outer inner", dtype=WIDE)
    out = Output("outer n inner")
    domain = {"count": lambda dtype, n: (1, dtype.max)}
    finite = ("count",)

    sample = min_backward.sample
    error = min_backward.error

    def reference(x: Tensor, y: Tensor, grad: Tensor, count: Tensor) -> Tensor:
        return ((x == y.unsqueeze(1)) * grad.unsqueeze(1)).div_(count.unsqueeze(1))

    def others(x: Tensor, grad: Tensor, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return the other inputs: x's minimum, the random gradient, and a tie count up to three too high."""
        least = x.amin(1)
        own = (x == least.unsqueeze(1)).sum(1)
        elsewhere = torch.randint(0, 4, own.shape, generator=generator, device=generator.device).to(x.device)
        return least, grad, own + elsewhere.where(own > 0, 0)
