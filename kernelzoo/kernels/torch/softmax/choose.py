"""Which form takes a softmax in torch."""

import torch

from kernelzoo.kernels.torch.softmax.limits import adds_in_order, rounds_inside, too_long
from kernelzoo.registry import chooser


@chooser("torch", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Eager, since compiling takes seconds that no call earns back; where it may miss the contract, another way."""
    if not (rounds_inside(x) or adds_in_order(x) or too_long(x)):
        return "eager"
    return "renormalized" if x.device.type == "cpu" else "naive"
