import torch

from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("torch", "min", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.amin, one or two kernels of torch's own."""
    x, out, dim = drop_unit_axis(x, out)

    def launch() -> None:
        torch.amin(x, dim, out=out)

    return launch
