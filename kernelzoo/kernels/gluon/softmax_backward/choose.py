"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_with
from kernelzoo.registry import chooser


@chooser("gluon", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a program holds; longer ones are read twice, by one program if they are many, else by several."""
    rows, (weights,) = rows_with(grad, out, y)
    return "fused" if rows.n <= tiles.longest(rows, 2) else tiles.streamed(device_of(grad), rows, weights)
