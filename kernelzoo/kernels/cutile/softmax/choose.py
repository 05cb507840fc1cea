"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.softmax import tiles
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.softmax.split_cluster import cluster_blocks
from kernelzoo.kernels.cutile.tiles import HELD_BYTES, block, strip_or_none, wide_bytes
from kernelzoo.layout import Rows, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("cutile", "softmax")
class Knobs(tiles.Numbers):
    """What depends on the card."""

    crowd: int = knob(
        2, among=(1, 2, 4), unit="rows per multiprocessor", why="from which on a long row is one cluster's"
    )


@chooser("cutile", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Tiles of short rows, a program per row that fits on chip, a cluster to each that is longer, several programs to
    each if they are few or longer still. Across rows, strips of columns that a program holds, or several programs."""
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.columns is not None:
        if strip_or_none(rows, 1) is not None:
            return "columns"
        many = block(rows, BLOCK_BYTES, 2).count(rows) >= device.multiprocessors
        return "online" if many else "split_two_launches"
    if tiles.short_tile(knobs, device, rows, 1) is not None and not tiles.is_by_vectors(knobs, rows, x):
        return "multi_row_tile"
    if rows.n <= HELD_BYTES // wide_bytes(rows):
        return "fused"
    many = rows.total >= knobs.crowd * device.multiprocessors
    if many and not cluster_blocks(rows, device):
        return "online"
    return _split(rows, device) if many else "split_two_launches"


@chooser("cutile", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks to one row: of a cluster that holds it, or of two launches between which pairs are left."""
    return _split(rows_of(x, out), device_of(x))


def _split(rows: Rows, device: Device) -> str:
    return "split_cluster" if cluster_blocks(rows, device) else "split_two_launches"
