import torch

from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "min_backward_finish", "eager")
def eager(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, count: torch.Tensor, out: torch.Tensor) -> Launch:
    """Three eager operations: compare, multiply, divide."""
    x, y, grad, count, out = drop_unit_axes(x, y, grad, count, out)
    return lambda: void(torch.div((x == y.unsqueeze(1)) * grad.unsqueeze(1), count.unsqueeze(1), out=out))
