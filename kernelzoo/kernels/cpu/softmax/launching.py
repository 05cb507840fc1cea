"""The launch of a kernel of the host on floats: of a softmax, and of gradients."""

from collections.abc import Callable

import torch

from kernelzoo.kernels.cpu.launch import flat, launcher, tasks
from kernelzoo.launch import Launch

# Half precisions come as integers of their width, one type each, and are widened to float32 by their bits.
DTYPES = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.uint16,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}


def bound(kernel: Callable[..., None], tensors: tuple[torch.Tensor, ...], units: int, *constants: int) -> Launch:
    """A kernel that takes the tensors' memory, the rows' length, the lanes, and the strides of each tensor."""
    x = tensors[0]
    dtype = DTYPES[x.dtype]
    strides = (stride for tensor in tensors for stride in tensor.stride())
    shape = (x.size(1), x.size(2), *strides, *constants, units, tasks(units, x.numel()))
    arrays = [flat(tensor, dtype) for tensor in tensors]
    return launcher(tensors, arrays, (kernel, (*arrays, *shape)))
