import torch
from torch.nn.functional import rms_norm

from kernelzoo.launch import Launch, ResultCopyingLaunch
from kernelzoo.registry import register


@register("torch", "add_rms_norm", "eager")
def eager(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """torch.add, then torch.nn.functional.rms_norm. Its result is copied into ``out``, which is not timed."""
    rows, n = total.movedim(1, -1), x.size(1)

    def launch() -> torch.Tensor:
        torch.add(x, residual, out=total)
        return rms_norm(rows, (n,), weight, eps)

    return ResultCopyingLaunch(launch, out.movedim(1, -1).copy_)
