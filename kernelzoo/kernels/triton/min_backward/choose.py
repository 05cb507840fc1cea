"""Which form of a minimum's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import device_of, edges_of
from kernelzoo.kernels.triton.min_backward.columns import WHOLE
from kernelzoo.kernels.triton.softmax.choose import FEW_ROWS
from kernelzoo.kernels.triton.softmax.fused import ON_CHIP_BYTES, wide_bytes
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.triton.strips import whole_strip
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("triton", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Across rows, tiles of short columns, and strips of longer ones; several programs to each that none holds.
    """
    rows, device = rows_of(x, out), device_of(x)
    many = not device.is_nvidia  # where several programs to a row would read it twice, so may one
    if rows.columns is not None and rows.n > FEW_ROWS:
        strip = whole_strip(rows.columns, device, WHOLE)
        many = many and strip.grid(rows.columns, device) >= device.multiprocessors
        return "columns" if strip.holds or many else _split(device)
    if row_tile(of(Numbers, device.index), device, rows, edges_of(rows)) is not None:
        return "multi_row_tile"
    if rows.n <= ON_CHIP_BYTES // wide_bytes(rows):
        return "fused"
    return "online" if many and rows.total >= device.multiprocessors else _split(device)


@chooser("triton", "min_backward", "split")
def split(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row, which they hold on chip while they exchange counts: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other. Where that can't be had, on
    AMD devices and in the interpreter, one launch leaves the counts and a second adds them up and writes.
    """
    return _split(device_of(x))


def _split(device: Device) -> str:
    return "split_grid" if device.is_nvidia else "split_two_launches"
