"""The gradients of a layer norm in one torch operation a step."""

import torch

from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def backward_into(
    x: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
    dbias: torch.Tensor,
    eps: float,
) -> None:
    wide = torch.promote_types(x.dtype, torch.float32)
    x, grad = x.to(wide), grad.to(wide)
    away = x - x.mean(1, keepdim=True)
    scale = torch.rsqrt(away.square().mean(1, keepdim=True) + eps)
    normal = away * scale
    pulled = grad * weight.to(wide)[:, None]
    slope = (pulled * normal).mean(1, keepdim=True)
    dx.copy_(scale * (pulled - pulled.mean(1, keepdim=True) - normal * slope))
    dweight.copy_((grad * normal).sum((0, 2)))
    void(dbias.copy_(grad.sum((0, 2))))


@register("torch", "layer_norm_backward", "eager")
def eager(
    x: torch.Tensor,
    weight: torch.Tensor,
    grad: torch.Tensor,
    dx: torch.Tensor,
    dweight: torch.Tensor,
    dbias: torch.Tensor,
    eps: float,
) -> Launch:
    """Some fifteen eager operations, half precision widened first."""
    return lambda: backward_into(x, weight, grad, dx, dweight, dbias, eps)
