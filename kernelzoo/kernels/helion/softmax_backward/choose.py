"""Which form of a softmax's gradient takes a problem: its layout and its size against what a program holds."""

import torch

from kernelzoo.kernels.helion.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.helion.softmax.tiles import ON_CHIP_BYTES, Numbers, short_tile
from kernelzoo.kernels.helion.tiles import CROWD, block, strip_or_none, wide_bytes
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("helion", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip; of longer ones online if rows are many, split if few.

    Across rows, strips of columns that a program holds, and of longer ones the same two.
    """
    rows, device = rows_of(grad, out), device_of(grad)
    if rows.columns is not None:
        if strip_or_none(rows, 2) is not None:
            return "columns"
    elif short_tile(of(Numbers, device.index), device, rows, 2) is not None:
        return "multi_row_tile"
    elif rows.n <= ON_CHIP_BYTES // 2 // wide_bytes(rows):
        return "fused"
    many = block(rows, BLOCK_BYTES // 2).count(rows) >= CROWD * device.multiprocessors
    return "online" if many else "split_two_launches"


@chooser("helion", "softmax_backward", "split")
def split(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row; one launch leaves sums, and a second adds them up and writes."""
    return "split_two_launches"
