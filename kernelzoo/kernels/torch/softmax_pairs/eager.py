import math

import torch

from kernelzoo.kernels.torch.natural import naturals
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "softmax_pairs", "eager")
def eager(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor) -> Launch:
    """Six eager operations; half precision widened at the subtraction, by type promotion and not by a pass of its
    own."""
    x, maximum, total = naturals(x, maximum, total)

    def launch() -> None:
        top = x.amax(1, keepdim=True).to(total.dtype)
        base = top.masked_fill(top == -math.inf, 0.0)  # of a row of -inf alone, whose exponentials are 0 then
        torch.sum(torch.exp(torch.sub(x, base)), 1, out=total)
        torch.add(top[:, 0], total * 0.0, out=maximum)

    return launch
