import torch

from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "logsumexp_backward", "eager")
def eager(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Three eager operations: subtract, exponentiate, multiply; half precision is widened first."""
    x, y, grad, out = drop_unit_axes(x, y, grad, out)
    wide = torch.promote_types(x.dtype, torch.float32)
    return lambda: void(out.copy_(torch.exp(x.to(wide) - y.unsqueeze(1)) * grad.unsqueeze(1)))
