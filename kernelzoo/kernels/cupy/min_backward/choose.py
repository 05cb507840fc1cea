"""Which form takes a problem: by row length first, then by the number of rows, and for columns by their height."""

import torch

from kernelzoo import tables
from kernelzoo.kernels.cupy.gradients import columns as strips
from kernelzoo.kernels.cupy.gradients.rows import packs, width
from kernelzoo.kernels.cupy.launch import device_of
from kernelzoo.kernels.cupy.min_backward import fused
from kernelzoo.kernels.cupy.min_backward.held import held
from kernelzoo.kernels.cupy.rows import WARP, thread_has_row
from kernelzoo.layout import rows_with
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table


@launch_table("cupy", "min_backward")
class Knobs:
    """What depends on the card."""

    warp_packs: int = knob(
        4 * WARP, among=(64, 128, 192, 256), unit="packs", why="of the longest row that one warp takes"
    )
    alone_packs: int = knob(
        2048,
        among=(1024, 2048, 4096),
        unit="packs",
        why="of the longest row that has one block where rows are too few for all SMs",
    )
    fill_percent: int = knob(
        100, among=(50, 100, 200), unit="% of the SMs", why="with a row each, from which rows aren't too few"
    )


@chooser("cupy", "min_backward", "auto")
def auto(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> str:
    """The fastest of the others for the problem: by row length first, then by the number of rows."""
    device = device_of(x)
    rows, beside = rows_with(x, out, y, grad)
    knobs = tables.of(Knobs, device.index)
    if thread_has_row(rows):
        return "multi_row_tile"
    if rows.columns is not None:
        columns, _ = strips.columns_of("cupy/min_backward/auto", rows, *beside)
        wide = strips.vector(columns)
        strip = strips.whole(columns, wide, held(wide), device)
        return "split_grid" if strips.suits_split(columns, strip, device) else "columns"
    wide = width(rows)
    count = packs(rows, wide)
    if count <= knobs.warp_packs:
        return "multi_row_tile"
    many = 100 * rows.total >= knobs.fill_percent * device.multiprocessors
    if count <= fused.most_packs(wide, device) and (many or count <= knobs.alone_packs):
        return "fused"
    return "online" if wide == 1 and many else "split_grid"
