"""Tiles of rows by blocks of columns, and what forms hand to their kernels beside the layout."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.gluon.tiles import Tile, along, block, inside
from kernelzoo.kernels.shared.jit import wide_type
from kernelzoo.layout import Rows, identity, power_of_two
from kernelzoo.tables import knob, numbers, of

TILE_ELEMENTS = 8192
"""A tile of elements narrower than two bytes ends here."""


@numbers
class Numbers:
    tile_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )


def row_tile(device: Device, rows: Rows) -> Tile:
    """Several short rows to a warp, or a block of one row. 64 bytes to a thread, more to those of a single warp."""
    knobs, cols = of(Numbers, device.index), power_of_two(inside(rows))
    many = min(knobs.warp_bytes // rows.itemsize, TILE_ELEMENTS // 4) // cols
    if many > 1:
        return along(rows, many, cols, 1)
    elements = min(cols, knobs.tile_bytes // rows.itemsize, TILE_ELEMENTS)
    fed = power_of_two(min(rows.n, elements) + 1) // 2
    return along(rows, 1, elements, device.warps(fed * rows.itemsize // 64))


def block_tile(device: Device, rows: Rows) -> Tile:
    """``row_tile``, or a block of columns side by side. 32 elements to a thread, 16 if they are read one by one."""
    if not rows.across:
        return row_tile(device, rows)
    tile = block(rows, 32768)
    return tile if tile.vector > 1 else block(rows, 16384)


def kinds(rows: Rows, dtype: torch.dtype, tile: Tile) -> tuple[object, ...]:
    """WIDE, IDENTITY, and what a tile is made of."""
    return wide_type(dtype), identity(dtype), *tile.constants(rows)
