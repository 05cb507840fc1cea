"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.softmax.tiles import Numbers, is_alone, short_tile
from kernelzoo.kernels.cutile.tiles import HELD_BYTES, block, strip_or_none, wide_bytes
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("cutile", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip; longer rows are read twice: by one program if they are
    many, by several if they are few. Across rows, strips of columns, and the same for longer ones."""
    rows, device = rows_of(grad, out), device_of(grad)
    knobs = of(Numbers, device.index)
    if rows.columns is not None:
        if strip_or_none(rows, 2) is not None:
            return "columns"
    elif short_tile(knobs, device, rows, 2) is not None and not is_alone(knobs, rows, grad):
        return "multi_row_tile"
    elif rows.n <= HELD_BYTES // 2 // wide_bytes(rows):
        return "fused"
    many = block(rows, BLOCK_BYTES, 2).count(rows) >= 4 * device.multiprocessors
    return "online" if many else "split_two_launches"
