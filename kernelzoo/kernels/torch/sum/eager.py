import torch

from kernelzoo.kernels.torch.natural import drop_unit_axis
from kernelzoo.launch import Launch, void
from kernelzoo.registry import register


@register("torch", "sum", "eager")
def eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """torch.sum, one or two kernels of torch's own."""
    x, out, dim = drop_unit_axis(x, out)
    if x.itemsize == 2 and x.is_floating_point() and not x.is_cuda:  # threads would add rounded sums, which overflow
        return lambda: void(out.copy_(torch.sum(x, dim, dtype=torch.float32)))
    if out.itemsize < x.itemsize:  # torch.sum would round the elements first
        return lambda: void(out.copy_(torch.sum(x, dim)))
    return lambda: void(torch.sum(x, dim, dtype=out.dtype, out=out))
