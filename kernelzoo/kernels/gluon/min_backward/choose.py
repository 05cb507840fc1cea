"""Which form of a minimum's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("gluon", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a program holds; longer ones are read twice, by one program if they are many, else by several."""
    rows = rows_of(x, out)
    return "fused" if rows.n <= tiles.longest(rows, 1) else tiles.streamed(device_of(x), rows)
