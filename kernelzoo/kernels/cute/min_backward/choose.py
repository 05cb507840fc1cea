"""Which form of a minimum's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.tiles import longest_row, problem, streamed
from kernelzoo.registry import chooser


@chooser("cute", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a block holds; longer ones are read twice, by one block if they are many, else by several."""
    given = problem(x, out, y, grad)
    return "fused" if given.n <= longest_row(given, 1) else streamed(device_of(x), given, 1)
