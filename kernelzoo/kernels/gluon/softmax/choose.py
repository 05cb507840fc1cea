"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.gluon.softmax import tiles
from kernelzoo.kernels.gluon.tiles import block, strip_or_none, vector_of, wide_bytes
from kernelzoo.kernels.shared.jit import device_of, edges_of
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

ONLINE_ROWS = 6
"""Rows of float64 per multiprocessor from which online takes those that no program holds."""


@launch_table("gluon", "softmax")
class Knobs(tiles.Numbers):
    """What depends on the card. Shipped values are those of Triton's kernels on an H200."""

    ahead_row: int = knob(
        16384,
        among=(4096, 8192, 16384),
        unit="elements",
        why="a longer row of half precision is for persistent, if rows are many",
    )
    ahead_rows: int = knob(2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="from which on they are many")


@chooser("gluon", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, and several programs to each row that is longer.

    Longer rows of float64 are for online if they are many, since its exponentials take longer than memory does. Across
    rows, strips of columns that a program holds; of longer ones online if strips are many, split if they are few.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.columns is not None:
        if strip_or_none(rows, 1) is not None:
            return "columns"
        many = block(rows, tiles.ON_CHIP_BYTES).count(rows) >= device.multiprocessors
        return "online" if many else "split_two_launches"
    if tiles.short_tile(knobs, device, rows, 1) is not None:
        return "multi_row_tile"
    if rows.n > tiles.ON_CHIP_BYTES // wide_bytes(rows):
        many = rows.itemsize == 8 and rows.total >= ONLINE_ROWS * device.multiprocessors
        return "online" if many else _split(rows, device)
    ahead = rows.itemsize == 2 and rows.n > knobs.ahead_row and rows.total >= knobs.ahead_rows * device.multiprocessors
    return "persistent" if ahead and vector_of(rows) == rows.whole_vector and not edges_of(rows) else "fused"


@chooser("gluon", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row, which they hold on chip while they exchange (max, sum) pairs: one launch.

    Of rows that lie across memory, one launch leaves the pairs and a second merges them and writes.
    """
    return _split(rows_of(x, out), device_of(x))


def _split(rows: Rows, device: Device) -> str:
    return "split_grid" if device.is_nvidia and not rows.across else "split_two_launches"
