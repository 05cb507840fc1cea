import torch

from kernelzoo.kernels.numba.launch import RowView, cached_decision, chooser_by_layout
from kernelzoo.kernels.numba.min import atomics, columns, row_tiles, split_arrival
from kernelzoo.layout import cdiv
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table


@launch_table("numba", "min")
class Knobs(row_tiles.Knobs, split_arrival.Knobs, atomics.Knobs):
    split_rows: int = knob(64, among=(16, 32, 64, 128, 256), unit="rows", why="up to which long ones are split")
    across_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="across rows, below which rows are split")
    columns_percent: int = knob(
        30, among=(15, 30, 60, 100), unit="% of the SMs", why="with strips of columns, below which columns are split"
    )
    columns_long: int = knob(33, among=(33, 64, 128, 512), unit="elements", why="of columns, from which by vectors")


@chooser("numba", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> str:
    """A block, or a part of one, reduces each row. Adjacent columns are read in vectors across them."""
    return cached_decision(choose_for_one_block, Knobs, x, out)


@chooser("numba", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> str:
    """Several blocks share each row. The last block to finish reduces the minima of all."""
    return "split_arrival"


@chooser("numba", "min", "auto")
@chooser_by_layout(Knobs)
def auto(v: RowView, knobs: Knobs) -> str:
    """Several blocks share a row if rows are long and too few to fill the device. Otherwise a row has one block."""
    cut = columns.choose_strips(v, v.device.multiprocessors) if v.n >= knobs.columns_long else None
    if cut is not None and 100 * cut[0].outer * cut[1].across >= knobs.columns_percent * v.device.multiprocessors:
        return "columns"
    held = row_tiles.rows_tiling(v, knobs)
    if v.is_strided:
        groups = cdiv(v.total, held.rows * held.stack)
        few = groups < knobs.across_blocks * v.device.multiprocessors and v.n > 2 * held.lanes * held.read_size
    else:
        few = v.total <= knobs.split_rows and v.n > 256 * held.read_size
    return "split_arrival" if few else choose_for_one_block(v, knobs)


def choose_for_one_block(v: RowView, knobs: Knobs) -> str:
    """Return the form for rows that one block, or a part of one, reduces."""
    across = v.n >= knobs.columns_long and columns.choose_strips(v, v.device.multiprocessors) is not None
    return "columns" if across else "rows_deferred_block"
