"""Which form of softmax takes a problem, by a launch table."""

import torch

from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.kernels.cute.softmax.split_cluster import cluster_tile
from kernelzoo.kernels.cute.tiles import CROWD, block, holds_row, problem, short_tile, strip_or_none
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("cute", "softmax")
class Knobs:
    """Shipped values are those of an H200."""

    crowd: int = knob(
        1,
        among=(1, 2, 4),
        unit="rows per multiprocessor",
        why="from which on a row that no cluster holds is one block's",
    )
    fused_bytes: int = knob(
        32768, among=(32768, 65536, 131072), unit="bytes", why="of the longest row, as computed, that one block holds"
    )


@chooser("cute", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several short rows to a block, a block to a row that fits on chip, a cluster to each that is longer, several
    blocks to each if they are longer still and few. Across rows, strips of columns that a block holds, or several
    blocks."""
    given, device = problem(rows_of(x, out)), device_of(x)
    knobs = of(Knobs, device.index)
    if given.across:
        if strip_or_none(given, 1) is not None:
            return "columns"
        many = block(given).count(given.total) >= CROWD * device.multiprocessors
        return "online" if many else "split_two_launches"
    if short_tile(given, 1) is not None:
        return "multi_row_tile"
    # Of half precision, a row that begins anywhere has parts of vectors in every block of a cluster.
    longest = knobs.fused_bytes * (2 if given.shifted and given.rows.itemsize == 2 else 1)
    if holds_row(given, 1) and given.n * given.wide_bytes <= longest:
        return "fused"
    if cluster_tile(given, device) is not None:
        return "split_cluster"
    if holds_row(given, 1):
        return "fused"
    return "online" if given.total >= knobs.crowd * device.multiprocessors else "split_two_launches"


@chooser("cute", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks to one row: of a cluster that holds it, or of two launches between which pairs are left."""
    held = cluster_tile(problem(rows_of(x, out)), device_of(x))
    return "split_cluster" if held is not None else "split_two_launches"
