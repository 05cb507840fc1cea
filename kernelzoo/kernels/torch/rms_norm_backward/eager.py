"""The gradients of an RMS norm in one torch operation a step."""

import torch

from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def backward_into(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> None:
    wide = torch.promote_types(x.dtype, torch.float32)
    x, grad = x.to(wide), grad.to(wide)
    scale = torch.rsqrt(x.square().mean(1, keepdim=True) + eps)
    normal = x * scale
    pulled = grad * weight.to(wide)[:, None]
    dx.copy_(scale * (pulled - normal * (pulled * normal).mean(1, keepdim=True)))
    void(dweight.copy_((grad * normal).sum(0).sum(1)))


@register("torch", "rms_norm_backward", "eager")
def eager(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> Launch:
    """A dozen eager operations, half precision widened first."""
    return lambda: backward_into(x, weight, grad, dx, dweight, eps)
