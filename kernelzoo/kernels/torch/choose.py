"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.registry import chooser


@chooser("torch", "layer_norm", "auto")
@chooser("torch", "min", "auto")
@chooser("torch", "min_backward", "auto")
@chooser("torch", "rms_norm", "auto")
def eager(*tensors: torch.Tensor, **scalars: float) -> str:
    """Always eager: compiling takes seconds, which no single call earns back."""
    return "eager"
