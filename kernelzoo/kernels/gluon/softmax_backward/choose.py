"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.gluon.softmax.tiles import ON_CHIP_BYTES, Numbers, short_tile
from kernelzoo.kernels.gluon.tiles import block, strip_or_none, wide_bytes
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_with
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("gluon", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip; longer rows are read twice: by one program if they are
    many, by several if they are few. Across rows, strips of columns, and the same for longer ones."""
    rows, (weights,) = rows_with(grad, out, y)
    device = device_of(grad)
    if rows.columns is not None:
        if strip_or_none(rows, 2, weights) is not None:
            return "columns"
    elif short_tile(of(Numbers, device.index), device, rows, 2, weights) is not None:
        return "multi_row_tile"
    elif rows.n <= ON_CHIP_BYTES // 2 // wide_bytes(rows):
        return "fused"
    many = block(rows, ON_CHIP_BYTES, weights).count(rows) >= 4 * device.multiprocessors
    return "online" if many else "split_two_launches"
