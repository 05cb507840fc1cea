"""Which form takes a problem, of operations that choose alike; others have a ``choose.py`` of their own."""

import torch

from kernelzoo.registry import chooser


@chooser("cpu", "min_backward", "auto")
@chooser("cpu", "softmax_backward", "auto")
def fused(*tensors: torch.Tensor) -> str:
    """Always fused, the one there is: of rows that no cache holds it is as good as any other order."""
    return "fused"
