"""Tiles of rows by blocks of columns, and constants of the kernels of the minimum."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.cutile.tiles import Tile, contiguous_tile, loop_tile
from kernelzoo.layout import Rows, min_identity, next_power_of_two
from kernelzoo.tables import form_knobs, knob, of

TILE_ELEMENTS = 8192
"""The most elements of a tile. By default, it limits only tiles of one-byte elements."""

SHORT_ELEMENTS = 2048
"""The most elements of a tile of short rows, for two-byte elements."""


@form_knobs
class Knobs:
    block_bytes: int = knob(
        8192, among=(8192, 16384, 32768), unit="bytes", why="of a block of a row that is reduced at once"
    )
    deferred_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of a running minimum that stays a block"
    )
    tile_bytes: int = knob(8192, among=(4096, 8192, 16384), unit="bytes", why="of a tile of short rows")


def row_tile(device: Device, rows: Rows, *, reduces_in_loop: bool = False) -> Tile:
    """Return a tile of several short rows, or a block of one row. reduces_in_loop: whether a loop reduces blocks."""
    knobs, cols = of(Knobs, device.index), next_power_of_two(rows.n)
    many = min(knobs.tile_bytes // rows.itemsize, SHORT_ELEMENTS if rows.itemsize == 2 else TILE_ELEMENTS) // cols
    if many > 1:
        return contiguous_tile(rows, many, cols)
    bytes = knobs.block_bytes if reduces_in_loop else knobs.deferred_bytes
    return contiguous_tile(rows, 1, min(cols, bytes // rows.itemsize, TILE_ELEMENTS))


def running_min_tile(device: Device, rows: Rows) -> Tile:
    """Return the tile of an elementwise running minimum: ``row_tile``, or a block of neighbouring columns."""
    return loop_tile(rows, 16384) if rows.is_strided else row_tile(device, rows)


def kernel_constants(rows: Rows, dtype: torch.dtype, tile: Tile, pack: int) -> tuple[object, ...]:
    """Return the constants IDENTITY, FLOAT, MASKED, PACK, AXIS and SHAPE of a kernel."""
    floats = dtype.is_floating_point
    masked = not floats and (pack > 0 or rows.n % tile.block_length != 0)
    return min_identity(dtype), floats, masked, pack, tile.axis, tile.shape
