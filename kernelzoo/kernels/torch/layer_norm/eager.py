import torch
from torch.nn.functional import layer_norm

from kernelzoo.launch import Launch, ResultCopyingLaunch, void
from kernelzoo.registry import register


def norm_into(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    void(out.movedim(1, -1).copy_(layer_norm(x.movedim(1, -1), (x.size(1),), weight, bias, eps)))


@register("torch", "layer_norm", "eager")
def eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """torch.nn.functional.layer_norm. It has no ``out``, so its result is copied there, which is not timed."""
    rows, n = x.movedim(1, -1), x.size(1)
    return ResultCopyingLaunch(lambda: layer_norm(rows, (n,), weight, bias, eps), out.movedim(1, -1).copy_)
