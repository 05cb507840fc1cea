import torch
from torch.nn.functional import rms_norm

from kernelzoo.launch import Launch, ResultCopyingLaunch, void
from kernelzoo.registry import register


def norm_into(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> None:
    void(out.movedim(1, -1).copy_(rms_norm(x.movedim(1, -1), (x.size(1),), weight, eps)))


@register("torch", "rms_norm", "eager")
def eager(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """torch.nn.functional.rms_norm. It has no ``out``, so its result is copied there, which is not timed."""
    rows, n = x.movedim(1, -1), x.size(1)
    return ResultCopyingLaunch(lambda: rms_norm(rows, (n,), weight, eps), out.movedim(1, -1).copy_)
