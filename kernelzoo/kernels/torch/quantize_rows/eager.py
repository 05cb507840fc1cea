import torch

from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def quantize_into(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> None:
    top = x.abs().amax(1).float() if x.size(1) else torch.zeros_like(scale)
    scale.copy_(torch.where(top < LEAST, 1, top / TOP))
    void(values.copy_((x / scale[:, None]).clamp(-TOP, TOP)))


@register("torch", "quantize_rows", "eager")
def eager(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """Half a dozen eager operations; torch has no function of its own."""
    return lambda: quantize_into(x, values, scale)
