"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.kernels.helion.softmax import tiles
from kernelzoo.kernels.helion.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.helion.tiles import block, strip_or_none, uneven, wide_bytes
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("helion", "softmax")
class Knobs(tiles.Numbers):
    """What depends on the card. Shipped values are those of an H200."""

    crowd: int = knob(
        1, among=(1, 2, 4), unit="programs per SM", why="of one row each, from which on long rows are for online"
    )


@chooser("helion", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip; of longer ones online if rows are many, split if few.

    Across rows, strips of columns that a program holds, and of longer ones the same two.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.columns is not None:
        if strip_or_none(rows, 1) is not None:
            return "columns"
    elif tiles.short_tile(knobs, device, rows, 1) is not None and not (uneven(rows) and rows.n >= knobs.ragged):
        return "multi_row_tile"
    elif rows.n <= tiles.ON_CHIP_BYTES // wide_bytes(rows):
        return "fused"
    many = block(rows, BLOCK_BYTES).count(rows) >= knobs.crowd * device.multiprocessors
    return "online" if many else "split_two_launches"


@chooser("helion", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs to one row; one launch leaves (max, sum) pairs, and a second merges them and writes."""
    return "split_two_launches"
