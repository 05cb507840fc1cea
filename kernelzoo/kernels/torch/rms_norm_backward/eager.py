import torch
from torch import Tensor

from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "rms_norm_backward", "eager")
def eager(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, eps: float) -> Launch:
    """A dozen eager operations; half precision is widened first."""
    wide = torch.promote_types(x.dtype, torch.float32)

    def launch() -> None:
        rows, grads = x.to(wide), grad.to(wide)
        scale = torch.rsqrt(rows.square().mean(1, keepdim=True) + eps)
        normal = rows * scale
        pulled = grads * weight.to(wide)[:, None]
        dx.copy_(scale * (pulled - normal * (pulled * normal).mean(1, keepdim=True)))
        dweight.copy_((grads * normal).sum(0).sum(1))

    return launch
