import torch

from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "vecdot", "eager")
def eager(x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> Launch:
    """Two eager operations: multiply, sum; one half-precision factor is widened first."""
    x, y, total = drop_unit_axes(x, y, total)
    wide = total.dtype
    return lambda: void(torch.sum(torch.mul(x.to(wide), y), 1, out=total))
