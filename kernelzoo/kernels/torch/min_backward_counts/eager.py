import torch

from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "min_backward_counts", "eager")
def eager(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> Launch:
    """Three eager operations: compare, count in integers, and round the count."""
    x, y, count = drop_unit_axes(x, y, count)
    return lambda: void(count.copy_(torch.sum(x == y.unsqueeze(1), 1)))
