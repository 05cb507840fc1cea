import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min import tiles
from kernelzoo.kernels.cutile.min.tiles import row_tile, running_min_tile
from kernelzoo.kernels.cutile.tiles import has_unaligned_rows
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SHORT_COLUMNS = 512
"""The most elements of a column that is never split among several programs, even if strips are few."""

UNROLLED = 2048
"""The largest block, in two-byte elements, over which tileiras unrolls a loop 27 times."""


@launch_table("cutile", "min")
class Knobs(tiles.Knobs):
    row_bytes: int = knob(
        65536,
        among=(32768, 65536, 131072),
        unit="bytes",
        why="of a longer row, if rows are few, several programs take parts",
    )
    crowd: int = knob(1, among=(1, 2, 4), unit="programs per SM", why="below which rows are few")
    deferred: int = knob(4, among=(2, 4, 8), unit="programs per SM", why="below which a minimum stays a block")


@chooser("cutile", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> str:
    """Each program reduces complete rows if these fill the device. Otherwise, programs reduce parts of rows."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.is_strided:
        few = 2 * running_min_tile(device, rows).count_tiles(rows) < device.multiprocessors
        return "split" if few and rows.n > SHORT_COLUMNS else "rows_deferred"
    if rows.n * rows.itemsize > knobs.row_bytes and rows.total < knobs.crowd * device.multiprocessors:
        return "split"
    tile = row_tile(device, rows, reduces_in_loop=True)
    one_block = tile.shape[:2] == (1, 1) and tile.block_length >= rows.n and rows.itemsize == 2
    if one_block and (has_unaligned_rows(rows, x) or tile.block_length <= UNROLLED):
        # Reducing a ragged row's block uses shared memory. Loops over short blocks are unrolled too far.
        return "rows_deferred"
    # For one-byte elements, a reduction in the loop doesn't fit in registers.
    many = rows.total >= knobs.deferred * device.multiprocessors and rows.itemsize > 1
    return "rows" if tile.block_length >= rows.n or many else "rows_deferred"
