import torch

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES, longest_row
from kernelzoo.kernels.shared.jit import device_of, edge_vector_size
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

ONLINE_ROWS = 6
"""The number of rows per SM from which online takes float64 rows that don't fit on chip."""


@launch_table("gluon", "softmax")
class Knobs(tiles.Knobs):
    """Knobs that depend on the GPU. The default values are those of Triton's kernels on an H200."""

    ahead_row: int = knob(
        16384, among=(4096, 8192, 16384), unit="elements",
        why="a longer row of half precision is for persistent, if rows are many",
    )  # fmt: skip
    ahead_rows: int = knob(2, among=(1, 2, 4, 8), unit="rows per multiprocessor", why="from which on they are many")


@chooser("gluon", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """One program takes a row that fits on chip. Several programs share a longer row.

    If there are many longer float64 rows, online takes them, because their exponentials take longer than memory
    accesses. Longer columns go to online if there are many strips, else to split_two_launches.
    """
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.n > longest_row(rows, 1):
        if rows.is_strided:
            many = tiles.make_block_tile(rows, ON_CHIP_BYTES).count_tiles(rows) >= device.multiprocessors
            return "online" if many else "split_two_launches"
        many = rows.itemsize == 8 and rows.planned >= ONLINE_ROWS * device.multiprocessors
        return "online" if many else split(x, out)
    ahead = (
        rows.itemsize == 2 and rows.n > knobs.ahead_row and rows.planned >= knobs.ahead_rows * device.multiprocessors
    )
    whole = tiles.choose_vector_width(rows) == rows.vector_elements and not edge_vector_size(rows)
    return "persistent" if ahead and whole and not rows.is_strided else "fused"


@chooser("gluon", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several programs share a row, and keep it on chip while they exchange (max, sum) states: one launch.

    For columns, one launch stores the states, and a second merges them and writes.
    """
    return "split_grid" if device_of(x).is_nvidia and not rows_of(x, out).is_strided else "split_two_launches"
