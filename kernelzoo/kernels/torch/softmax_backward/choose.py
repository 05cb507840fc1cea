"""Which form takes the gradient of a softmax in torch."""

import torch

from kernelzoo.kernels.torch.softmax_backward.eager import misses
from kernelzoo.registry import chooser


@chooser("torch", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Eager, since compiling takes seconds that no call earns back; where that misses the contract, naive."""
    return "naive" if misses(grad) else "eager"
