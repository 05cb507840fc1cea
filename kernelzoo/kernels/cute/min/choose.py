import torch

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import device_of
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SHORT_COLUMNS = 512
"""Elements per column, at most, for one block per strip, even if strips are few."""


@launch_table("cute", "min")
class Knobs:
    row_bytes: int = knob(
        65536,
        among=(32768, 65536, 131072),
        unit="bytes",
        why="of a longer row, if rows are few, several blocks take parts",
    )
    columns_crowd: int = knob(
        2, among=(1, 2, 4), unit="blocks per SM", why="of strips, below which several take parts of each"
    )
    crowd: int = knob(1, among=(1, 2, 4), unit="blocks per SM", why="below which rows are few")


@chooser("cute", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """One block reduces a row if rows are enough to fill the device. Otherwise several blocks share a row."""
    given, device = tiles.make_problem(bool_as_uint8(x), bool_as_uint8(out)), device_of(x)
    knobs, n = of(Knobs, device.index), given.row_length
    if given.across:
        few = tiles.long_row_tile(given).count_tiles(given.row_count) < knobs.columns_crowd * device.multiprocessors
        return "split" if few and n > SHORT_COLUMNS else "rows_deferred"
    if n * given.rows.itemsize > knobs.row_bytes and given.row_count < knobs.crowd * device.multiprocessors:
        return "split"
    tile = tiles.blockwise_tile(given, min_elements=tiles.READ_ELEMENTS)
    return "rows" if tile.block_length >= n else "rows_deferred"
