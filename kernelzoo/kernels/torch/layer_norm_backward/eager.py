"""The gradients of a layer norm in one torch operation a step."""

import torch
from torch import Tensor

from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def into(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> None:
    wide = torch.promote_types(x.dtype, torch.float32)
    x, grad = x.to(wide), grad.to(wide)
    away = x - x.mean(1, keepdim=True)
    scale = torch.rsqrt(away.square().mean(1, keepdim=True) + eps)
    normal = away * scale
    pulled = grad * weight.to(wide)[:, None]
    slope = (pulled * normal).mean(1, keepdim=True)
    dx.copy_(scale * (pulled - pulled.mean(1, keepdim=True) - normal * slope))
    dweight.copy_((grad * normal).sum(0).sum(1))
    void(dbias.copy_(grad.sum(0).sum(1)))


@register("torch", "layer_norm_backward", "eager")
def eager(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Some fifteen eager operations, half precision widened first."""
    return lambda: into(x, weight, grad, dx, dweight, dbias, eps)
