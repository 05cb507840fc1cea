"""Which form of a softmax's gradient takes a problem: its layout and its size against the device's."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.jit import device_of, edges_of
from kernelzoo.kernels.triton.softmax.choose import FEW_ROWS
from kernelzoo.kernels.triton.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.triton.softmax_backward.tiles import capacity
from kernelzoo.kernels.triton.strips import whole_strip
from kernelzoo.layout import rows_with
from kernelzoo.registry import chooser
from kernelzoo.tables import of


@chooser("triton", "softmax_backward", "auto")
def auto(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Across rows, tiles of short columns, and strips of longer ones; several programs to each that none holds.
    """
    rows, (weights,) = rows_with(grad, out, y)
    device = device_of(grad)
    many = not device.is_nvidia  # where several programs to a row would read it twice, so may one
    if rows.columns is not None and rows.n > FEW_ROWS:
        strip = whole_strip(rows.columns, device, 2)
        many = many and strip.grid(rows.columns, device) >= device.multiprocessors
        return "columns" if strip.holds or many else _split(device)
    if row_tile(of(Numbers, device.index), device, rows, edges_of(rows, weights)) is not None:
        return "multi_row_tile"
    if rows.n <= capacity(rows):
        return "fused"
    return "online" if many and rows.total >= device.multiprocessors else _split(device)


@chooser("triton", "softmax_backward", "split")
def split(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row, which they hold on chip while they exchange sums: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other. Where that can't be had, on
    AMD devices and in the interpreter, one launch leaves the sums and a second adds them up and writes.
    """
    return _split(device_of(grad))


def _split(device: Device) -> str:
    return "split_grid" if device.is_nvidia else "split_two_launches"
