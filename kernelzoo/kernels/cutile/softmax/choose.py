import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES, longest_row
from kernelzoo.layout import rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of


@launch_table("cutile", "softmax")
class Knobs(tiles.Knobs):
    crowd: int = knob(
        1, among=(1, 2, 4), unit="rows per multiprocessor", why="from which on rows are many, and each is one program's"
    )
    held_bytes: int = knob(
        65536,
        among=(32768, 65536, ON_CHIP_BYTES),
        unit="bytes",
        why="as computed of the longest row of many that a program holds; in half precision half of that",
    )


@chooser("cutile", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """A row stays on chip if it fits. A longer row is read twice, by one program or, if rows are few, by several."""
    rows, device = rows_of(x, out), device_of(x)
    knobs, longest = of(Knobs, device.index), longest_row(rows, 1)
    if rows.is_strided:
        many = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2).count_tiles(rows) >= device.multiprocessors
    else:
        many = rows.planned >= knobs.crowd * device.multiprocessors
        if many:
            longest = knobs.held_bytes // (2 if rows.itemsize == 2 else 1) // rows.accumulator_bytes
    if rows.n <= longest:
        return "fused"
    return "online" if many else "split_two_launches"
