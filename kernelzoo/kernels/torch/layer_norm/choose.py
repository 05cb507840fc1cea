"""Which form takes a layer norm in torch."""

import torch

from kernelzoo.registry import chooser


@chooser("torch", "layer_norm", "auto")
def auto(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> str:
    """Always eager: compiling takes seconds, which no single call earns back."""
    return "eager"
