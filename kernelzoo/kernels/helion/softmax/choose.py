import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.shared.held_rows import longest_row
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("helion", "softmax")
class Knobs(tiles.Knobs):
    crowd: int = knob(
        1, among=(1, 2, 4), unit="programs per SM", why="of one row each, from which on long rows are for online"
    )


@chooser("helion", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """A row stays on chip if it fits. A longer row is read twice, by one program or, if rows are few, by several."""
    rows, device = rows_of(x, out), device_of(x)
    if rows.n <= longest_row(rows, 1):
        return "fused"
    crowd = of(Knobs, device.index).crowd * device.multiprocessors
    programs = tiles.loop_tile(rows, tiles.BLOCK_BYTES).count_tiles(rows.with_planned_rows)
    return "online" if programs >= crowd else "split_two_launches"
