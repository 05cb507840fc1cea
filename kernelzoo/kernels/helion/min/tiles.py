"""Tiles of rows by blocks of columns, and what the forms of the minimum hand to their kernels beside them."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.tiles import Tile, side_by_side
from kernelzoo.layout import Rows, power_of_two
from kernelzoo.tables import knob, numbers

TILE_ELEMENTS = 8192
"""A tile of elements narrower than two bytes ends here."""


@numbers
class Numbers:
    tile_bytes: int = knob(
        32768, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )


def identity(dtype: torch.dtype) -> float | int:
    """What a minimum over nothing would be: no element is above it."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as it can be loaded and compared: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def row_tile(knobs: Numbers, device: Device, rows: Rows) -> Tile:
    """Several short rows to a warp, or a block of one row: 64 bytes to a thread, more to those of a single warp."""
    cols = power_of_two(rows.n)
    many = min(knobs.warp_bytes // rows.itemsize, TILE_ELEMENTS // 4) // cols
    if many > 1:
        return side_by_side(rows, many, cols, 1)
    block = min(cols, knobs.tile_bytes // rows.itemsize, TILE_ELEMENTS)
    fed = power_of_two(min(rows.n, block) + 1) // 2
    return side_by_side(rows, 1, block, device.warps(fed * rows.itemsize // 64))


def column_tile(rows: Rows) -> Tile:
    """A block of columns side by side: 16 elements to a thread."""
    return tiles.block(rows, 16384)
