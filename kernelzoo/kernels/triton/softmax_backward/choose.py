"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.triton.gradients import form
from kernelzoo.registry import chooser


@chooser("triton", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, several programs to a longer one.

    Across rows, tiles of short columns, and strips of longer ones; several programs to each that none holds.
    """
    return form((grad, y, out), 2)
