"""Which form of a softmax's gradient takes a problem: its layout and its size against what a program holds."""

import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser


@chooser("helion", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Rows that a program holds; longer ones are read twice, by one program if they are many, else by several."""
    rows = rows_of(grad, out)
    return "fused" if rows.n <= tiles.longest(rows, 2) else tiles.streamed(device_of(grad), rows)
