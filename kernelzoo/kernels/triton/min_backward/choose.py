"""Which form of a minimum's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.kernels.shared.jit import device_of, edges_of
from kernelzoo.kernels.triton.min_backward.fused import WHOLE
from kernelzoo.kernels.triton.softmax.fused import ON_CHIP_BYTES, wide_bytes
from kernelzoo.kernels.triton.softmax.tiles import FEW_ROWS, LINE_BYTES, Numbers, row_tile
from kernelzoo.kernels.triton.strips import whole_strip
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("triton", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Across rows, tiles of short columns, and strips of longer ones; several programs to each that none holds.
    """
    rows = rows_of(x, out)
    device, edges = device_of(x), edges_of(rows)
    if rows.across and rows.n > FEW_ROWS:
        held, programs = whole_strip(rows, device, WHOLE) is not None, rows.total * rows.itemsize // LINE_BYTES
    else:
        tile = row_tile(of(Numbers, device.index), device, rows, edges)
        held, programs = tile is not None or rows.n <= ON_CHIP_BYTES // wide_bytes(rows), rows.total
    if held:
        return "fused"
    # Where several programs to a row would read it twice, so may one.
    return "online" if not device.is_nvidia and programs >= device.multiprocessors else "split"
