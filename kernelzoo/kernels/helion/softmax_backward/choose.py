"""Which form of a softmax's gradient takes a problem: its layout and its size against what a program holds."""

import torch

from kernelzoo.kernels.helion.softmax.tiles import ON_CHIP_BYTES, Numbers, short_tile
from kernelzoo.kernels.helion.tiles import strip_or_none, wide_bytes
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("helion", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and online for longer ones. Across rows, strips of
    columns, and the same for longer ones."""
    rows, device = rows_of(grad, out), device_of(grad)
    if rows.columns is not None:
        return "columns" if strip_or_none(rows, 2) is not None else "online"
    if short_tile(of(Numbers, device.index), device, rows, 2) is not None:
        return "multi_row_tile"
    return "fused" if rows.n <= ON_CHIP_BYTES // 2 // wide_bytes(rows) else "online"
