"""The minimum in torch: torch.amin, eager and compiled."""

import torch

from kernelzoo.kernels.torch.compiled import compiled
from kernelzoo.ops import void
from kernelzoo.registry import Launch, register


@register("torch", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Always eager: compiling takes seconds, which no single call earns back."""
    return eager(x, out)


@register("torch", "min", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin, one or two kernels of torch's own."""
    x, out, dim = _natural(x, out)

    def launch() -> None:
        torch.amin(x, dim, out=out)

    return launch


@register("torch", "min", "compile")
def compile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin under torch.compile with static shapes, so that Inductor may specialise on each problem."""
    x, out, dim = _natural(x, out)
    return compiled("torch/min/compile", _amin_into, x, dim, out)


def _natural(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The tensors as a user of torch would hold them."""
    return (x[:, :, 0], out[:, 0], 1) if x.size(2) == 1 else (x, out, 1)


def _amin_into(x: torch.Tensor, dim: int, out: torch.Tensor) -> None:
    void(out.copy_(torch.amin(x, dim)))
