"""Which form takes the gradient of a softmax on the host."""

import torch

from kernelzoo.registry import chooser


@chooser("cpu", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Always fused, the one there is: of rows that no cache holds it is as good as any other order."""
    return "fused"
