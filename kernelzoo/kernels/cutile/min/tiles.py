"""Tiles of rows by blocks of columns, and what the forms of the minimum hand to their kernels beside them."""

import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.tiles import Tile, along
from kernelzoo.layout import Rows, power_of_two
from kernelzoo.tables import knob, numbers

TILE_ELEMENTS = 8192
"""A block of elements narrower than two bytes ends here."""

SHORT_ELEMENTS = 2048
"""A tile of short rows of two bytes an element ends here."""


@numbers
class Numbers:
    """Shipped values are those of an H200."""

    block_bytes: int = knob(
        8192, among=(8192, 16384, 32768), unit="bytes", why="of a block of a row that is reduced at once"
    )
    deferred_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of a running minimum that stays a block"
    )
    tile_bytes: int = knob(8192, among=(4096, 8192, 16384), unit="bytes", why="of a tile of short rows")


def identity(dtype: torch.dtype) -> float | int:
    """What a minimum over nothing would be: no element is above it."""
    return float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor as it can be loaded and compared: bool as the byte it is."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def row_tile(knobs: Numbers, bytes: int, rows: Rows) -> Tile:
    """Several short rows, or a block of one row, of so many bytes."""
    cols = power_of_two(rows.n)
    many = min(knobs.tile_bytes // rows.itemsize, SHORT_ELEMENTS if rows.itemsize == 2 else TILE_ELEMENTS) // cols
    if many > 1:
        return along(rows, many, cols)
    return along(rows, 1, min(cols, bytes // rows.itemsize, TILE_ELEMENTS))


def column_tile(rows: Rows, id: str) -> Tile:
    """A block of columns side by side. Raises UnsupportedProblemError where rows don't lie across memory."""
    tiles.across_or_refuse(rows, id)
    return tiles.block(rows, 16384)


def kinds(rows: Rows, dtype: torch.dtype, tile: Tile) -> tuple[object, ...]:
    """IDENTITY, FLOAT, RAGGED, AXIS and SHAPE of a kernel."""
    floats = dtype.is_floating_point
    return identity(dtype), floats, not floats and rows.n % tile.block != 0, tile.axis, tile.shape
