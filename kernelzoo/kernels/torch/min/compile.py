"""torch.amin as torch.compile makes it."""

import torch

from kernelzoo.kernels.torch.compiled import compiled
from kernelzoo.kernels.torch.natural import natural
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


def _amin_into(x: torch.Tensor, dim: int, out: torch.Tensor) -> None:
    void(out.copy_(torch.amin(x, dim)))


@register("torch", "min", "compile")
def compile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin under torch.compile with static shapes, so that Inductor may specialise on each problem."""
    x, out, dim = natural(x, out)
    return compiled("torch/min/compile", _amin_into, x, dim, out)
