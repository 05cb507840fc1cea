import torch

from kernelzoo.kernels.helion.min import tiles
from kernelzoo.kernels.helion.min.tiles import running_min_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SHORT_COLUMNS = 512
"""The most elements of a column that is never split among several programs, even if strips are few."""


@launch_table("helion", "min")
class Knobs(tiles.Knobs):
    row_bytes: int = knob(
        65536, among=(32768, 65536, 131072), unit="bytes",
        why="of a longer row, if rows are few, several programs take parts",
    )  # fmt: skip
    crowd: int = knob(1, among=(1, 2, 4), unit="programs per SM", why="below which rows are few")


@chooser("helion", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Each program reduces complete rows if these fill the device. Otherwise, programs reduce parts of rows."""
    rows, device = rows_of(bool_as_uint8(x), bool_as_uint8(out)), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.is_strided:
        few = 2 * running_min_tile(device, rows).count_tiles(rows) < device.multiprocessors
        return "split" if few and rows.n > SHORT_COLUMNS else "rows_deferred"
    long = rows.n * rows.itemsize > knobs.row_bytes
    return "split" if long and rows.total < knobs.crowd * device.multiprocessors else "rows"
