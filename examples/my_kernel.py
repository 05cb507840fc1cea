"""Kernels of one's own, in a file of one's own: anything that torch can hand its memory to will do.

    kernelzoo verify --module examples/my_kernel.py --backend mine
    kernelzoo bench --module examples/my_kernel.py --backend mine,torch --shape 4096x1024

These two are plain torch, and run on any machine. A file is run in the process that measures, and nowhere else.
"""

import math

import torch

import kernelzoo
from kernelzoo.launch import Launch


@kernelzoo.register("mine", "softmax", "base_two")
def base_two(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Softmax by powers of two, four passes over memory."""
    # x and out have three axes, (outer, n, inner), and any strides; n is the reduced one.
    wide = torch.promote_types(x.dtype, torch.float32)

    def launch() -> None:  # this is what is timed, and it runs again and again
        below = x.to(wide) - x.amax(1, keepdim=True)  # first, since scaling first would lose the bits of an offset
        powers = torch.exp2(below * math.log2(math.e))
        out.copy_(powers / powers.sum(1, keepdim=True))

    return launch


@kernelzoo.register("mine", "min", "halving")
def halving(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Minimum of the two halves of what is left, until one is left."""

    def launch() -> None:
        left = x
        while left.size(1) > 1:
            half = left.size(1) // 2
            smaller = torch.minimum(left[:, :half], left[:, half : 2 * half])  # which hands a NaN on
            left = smaller if left.size(1) == 2 * half else torch.cat((smaller, left[:, 2 * half :]), 1)
        out.copy_(left[:, 0])  # (outer, inner)

    return launch
