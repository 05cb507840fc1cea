"""Which form of a minimum's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.min_backward.tile_kernel import given_by
from kernelzoo.kernels.cute.tiles import CROWD, block, holds_row, short_tile, strip_or_none
from kernelzoo.registry import chooser


@chooser("cute", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Several short rows to a block, a block to a row that fits on chip; longer rows are read twice: by one block if
    they are many, by several if they are few. Across rows, strips of columns, and the same for longer ones."""
    given, device = given_by(x, y, grad, out), device_of(x)
    if given.across:
        if strip_or_none(given, 1) is not None:
            return "columns"
    elif short_tile(given, 1) is not None:
        return "multi_row_tile"
    elif holds_row(given, 1):
        return "fused"
    many = block(given, 1).count(given.total) >= CROWD * device.multiprocessors
    return "online" if many else "split_two_launches"
