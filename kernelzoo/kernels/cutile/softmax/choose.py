"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.softmax import tiles
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.softmax.split_cluster import cluster_blocks
from kernelzoo.kernels.cutile.tiles import HELD_BYTES, block, strip_or_none, wide_bytes
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("cutile", "softmax")
class Knobs(tiles.Numbers):
    """What depends on the card."""

    crowd: int = knob(
        1, among=(1, 2, 4), unit="rows per multiprocessor", why="from which on rows are many, and each is one program's"
    )
    held_bytes: int = knob(
        65536,
        among=(32768, 65536, HELD_BYTES),
        unit="bytes",
        why="as computed of the longest row of many that a program holds; in half precision half of that",
    )


@chooser("cutile", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip; longer rows are read twice: by one program if they are
    many, by several if they are few. Across rows, strips of columns, and the same for longer ones."""
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.columns is not None:
        if strip_or_none(rows, 1) is not None:
            return "columns"
        many = block(rows, BLOCK_BYTES, 2).count(rows) >= device.multiprocessors
        return "online" if many else "split_two_launches"
    if tiles.short_tile(knobs, device, rows, 1) is not None and not tiles.is_alone(knobs, rows, x):
        return "multi_row_tile"
    many = rows.total >= knobs.crowd * device.multiprocessors
    held = (knobs.held_bytes // (2 if rows.itemsize == 2 else 1)) if many else HELD_BYTES
    if rows.n <= held // wide_bytes(rows):
        return "fused"
    return "online" if many else "split_two_launches"


@chooser("cutile", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks to one row: of a cluster that holds it, or of two launches between which pairs are left."""
    return "split_cluster" if cluster_blocks(rows_of(x, out), device_of(x)) else "split_two_launches"
