"""The launch of a softmax kernel of the host."""

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


def bound(kernel: Callable[..., None], x: torch.Tensor, out: torch.Tensor, units: int, *constants: int) -> Launch:
    dtype = DTYPES[x.dtype]
    shape = (x.size(1), x.size(2), *x.stride(), *out.stride())
    return launcher((kernel, (flat(x, dtype), flat(out, dtype), *shape, *constants, units, tasks(units, x.numel()))))
