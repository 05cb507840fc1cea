import torch
from torch import Tensor

from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "layer_norm_backward", "eager")
def eager(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Some fifteen eager operations; half precision is widened first."""
    wide = torch.promote_types(x.dtype, torch.float32)

    def launch() -> None:
        rows, grads = x.to(wide), grad.to(wide)
        away = rows - rows.mean(1, keepdim=True)
        scale = torch.rsqrt(away.square().mean(1, keepdim=True) + eps)
        normal = away * scale
        pulled = grads * weight.to(wide)[:, None]
        slope = (pulled * normal).mean(1, keepdim=True)
        dx.copy_(scale * (pulled - pulled.mean(1, keepdim=True) - normal * slope))
        dweight.copy_((grads * normal).sum(0).sum(1))
        dbias.copy_(grads.sum(0).sum(1))

    return launch
