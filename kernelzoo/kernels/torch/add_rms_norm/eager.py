"""An addition and torch.nn.functional.rms_norm."""

import torch

from kernelzoo.kernels.torch.rms_norm.eager import norm_into
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "add_rms_norm", "eager")
def eager(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """torch.add, then torch.nn.functional.rms_norm and a copy of its result."""

    def launch() -> None:
        torch.add(x, residual, out=total)
        norm_into(total, weight, out, eps)

    return launch
