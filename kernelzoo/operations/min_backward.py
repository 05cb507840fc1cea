"""The gradient of a minimum."""

from kernelzoo.lazy import torch
from kernelzoo.operations.declared import Generator, Input, Output, Tensor
from kernelzoo.operations.declaring import operation


@operation()
class min_backward:
    """Gradient of a minimum along one axis, shared evenly among equal minima, as that of ``torch.amin``.

    x: float16, bfloat16, float32 or float64, any rank. y: x's minimum along ``dim``, without that axis. grad: gradient
    of y, of its shape. ``count`` is the number of elements in a row that equal its y. Each of them gets
    ``grad / count``, every other element ``grad * 0 / count``. So a row whose count is 0, such as a row with a NaN,
    becomes NaN. Returns a contiguous tensor of x's shape and dtype.
    """

    x = Input("outer n inner")
    y = Input("outer inner")
    grad = Input("outer inner")
    out = Output("outer n inner")
    gradient = "reference"

    def reference(x: Tensor, y: Tensor, grad: Tensor) -> Tensor:
        lowest = x == y.unsqueeze(1)
        return (lowest * grad.unsqueeze(1)).div_(lowest.sum(1, keepdim=True))

    def error(ref: Tensor, unit: float) -> Tensor:
        """Return up to three roundings, which a division or a product with a reciprocal can make."""
        return ref.abs().mul_(3 * unit).nan_to_num_(0.0, 0.0, 0.0)

    def sample(x: Tensor, n: int, generator: Generator) -> Tensor:
        """Put the least value of each row at up to three random places."""
        row, device = (x.size(0), 1, x.size(2)), generator.device
        least = x.amin(1, keepdim=True) - 1
        for _ in range(3):
            x.scatter_(1, torch.randint(0, n, row, generator=generator, device=device), least)
        return x

    def others(x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the other inputs: the minimum of x, and the gradient as drawn."""
        return x.amin(1), grad
