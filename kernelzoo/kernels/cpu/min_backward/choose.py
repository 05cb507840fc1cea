"""Which form takes the gradient of a minimum on the host."""

import torch

from kernelzoo.registry import chooser


@chooser("cpu", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Always fused, the one there is: of rows that no cache holds it is as good as any other order."""
    return "fused"
