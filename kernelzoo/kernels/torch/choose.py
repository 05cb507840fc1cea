"""Which form takes a problem. Never ``compile``: it takes seconds, which no single call earns back."""

import torch

from kernelzoo.kernels.torch.softmax.limits import adds_in_order, rounds_inside, too_long
from kernelzoo.kernels.torch.softmax_backward.eager import misses
from kernelzoo.registry import chooser


@chooser("torch", "layer_norm", "auto")
@chooser("torch", "min", "auto")
@chooser("torch", "min_backward", "auto")
@chooser("torch", "rms_norm", "auto")
def eager(*tensors: torch.Tensor, **scalars: float) -> str:
    """Always eager: compiling takes seconds, which no single call earns back."""
    return "eager"


@chooser("torch", "softmax", "auto")
def softmax(x: torch.Tensor, out: torch.Tensor) -> str:
    """Eager, since compiling takes seconds that no call earns back; where it may miss the contract, another way."""
    if not (rounds_inside(x) or adds_in_order(x) or too_long(x)):
        return "eager"
    return "renormalized" if x.device.type == "cpu" else "naive"


@chooser("torch", "softmax_backward", "auto")
def softmax_backward(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Eager, since compiling takes seconds that no call earns back; where that misses the contract, naive."""
    return "naive" if misses(grad) else "eager"
