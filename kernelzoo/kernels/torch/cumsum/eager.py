import torch

from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "cumsum", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.cumsum. It adds in order on the host and along strided axes, and by blocks of a row on a GPU."""
    x, out, dim = drop_unit_axis(x, out)
    if x.itemsize == 2 and x.is_floating_point() and x.is_cuda:  # torch would round each partial sum
        return lambda: void(out.copy_(torch.cumsum(x, dim, dtype=torch.float32)))
    return lambda: void(torch.cumsum(x, dim, dtype=out.dtype, out=out))
