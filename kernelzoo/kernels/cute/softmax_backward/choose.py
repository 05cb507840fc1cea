"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.softmax_backward.tile_kernel import given_by
from kernelzoo.kernels.cute.tiles import CROWD, block, holds_row, short_tile, strip_or_none
from kernelzoo.registry import chooser


@chooser("cute", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Several short rows to a block, a block to a row that fits on chip; longer rows are read twice: by one block if
    they are many, by several if they are few. Across rows, strips of columns, and the same for longer ones."""
    given, device = given_by(grad, y, out), device_of(grad)
    if given.across:
        if strip_or_none(given, 2) is not None:
            return "columns"
    elif short_tile(given, 2) is not None:
        return "multi_row_tile"
    elif holds_row(given, 2):
        return "fused"
    many = block(given, 2).count(given.total) >= CROWD * device.multiprocessors
    return "online" if many else "split_two_launches"
