import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min import tiles
from kernelzoo.kernels.cutile.min.tiles import block_tile, row_tile
from kernelzoo.kernels.cutile.tiles import is_ragged
from kernelzoo.layout import plain, rows_of
from kernelzoo.registry import chooser
from kernelzoo.tables import knob, launch_table, of

SHORT_COLUMNS = 512
"""Columns of at most so many elements have one program, however few strips there are."""

UNROLLED = 2048
"""Loops over blocks of at most so many two-byte elements are unrolled 27 times."""


@launch_table("cutile", "min")
class Knobs(tiles.Numbers):
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
    """Each program takes rows if there are enough of them to fill the device. Otherwise programs take parts of rows."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    knobs = of(Knobs, device.index)
    if rows.across:
        few = 2 * block_tile(device, rows).count(rows) < device.multiprocessors
        return "split" if few and rows.n > SHORT_COLUMNS else "rows_deferred"
    if rows.n * rows.itemsize > knobs.row_bytes and rows.total < knobs.crowd * device.multiprocessors:
        return "split"
    tile = row_tile(device, rows, at_once=True)
    one_block = tile.shape[:2] == (1, 1) and tile.block >= rows.n and rows.itemsize == 2
    if one_block and (is_ragged(rows, x) or tile.block <= UNROLLED):
        # Ragged rows that are reduced at once go through shared memory. Loops over short blocks are unrolled too far.
        return "rows_deferred"
    # A block of one-byte elements that is reduced at once doesn't fit in registers.
    many = rows.total >= knobs.deferred * device.multiprocessors and rows.itemsize > 1
    return "rows" if tile.block >= rows.n or many else "rows_deferred"
