import torch

from kernelzoo.kernels.gluon.min import tiles
from kernelzoo.kernels.gluon.min.tiles import block_tile, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SHORT_COLUMNS = 512
"""The column length up to which one program takes complete columns, even if there are few strips."""


@launch_table("gluon", "min")
class Knobs(tiles.Knobs):
    """Knobs that depend on the GPU. The default values are those of Triton's kernels on an H200."""

    row_bytes: int = knob(
        32768, among=(16384, 32768, 65536), unit="bytes",
        why="of a longer row, if rows are few, several programs take parts",
    )  # fmt: skip
    crowd: int = knob(4, among=(2, 4, 8), unit="programs per SM", why="below which rows are few")


@chooser("gluon", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Each program takes complete rows if these fill the device. Otherwise several programs share a row."""
    rows, device = rows_of(bool_as_uint8(x), bool_as_uint8(out)), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.is_strided:
        few = 2 * block_tile(device, rows).count_tiles(rows) < device.multiprocessors
        return "split" if few and rows.n > SHORT_COLUMNS else "rows_deferred"
    if rows.n * rows.itemsize > knobs.row_bytes and rows.total < knobs.crowd * device.multiprocessors:
        return "split"
    return "rows" if row_tile(device, rows).cols * 2 >= rows.n else "rows_deferred"
