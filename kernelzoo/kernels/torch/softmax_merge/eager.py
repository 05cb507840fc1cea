import math

import torch

from kernelzoo.kernels.torch.natural import drop_unit_axes
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "softmax_merge", "eager")
def eager(maximum: torch.Tensor, total: torch.Tensor, largest: torch.Tensor, sum: torch.Tensor) -> Launch:
    """Ten eager operations."""
    maximum, total, largest, sum = drop_unit_axes(maximum, total, largest, sum)

    def launch() -> None:
        top = maximum.amax(1, keepdim=True)
        half = torch.exp((maximum - top) / 2).masked_fill_(maximum == -math.inf, 0.0)
        torch.sum(total.mul(half).mul_(half), 1, out=sum)
        torch.add(top[:, 0], sum * 0.0, out=largest)

    return launch
