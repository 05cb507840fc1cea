"""Tiles of rows by blocks of columns, and constants of the kernels of the minimum."""

from typing import Any

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.tiles import Tile, adjacent_rows_tile, loop_tile
from kernelzoo.layout import Rows, min_identity, next_power_of_two
from kernelzoo.tables import form_knobs, knob, of

TILE_ELEMENTS = 8192
"""The most elements of a tile of one row. A tile of several rows has at most a quarter."""


@form_knobs
class Knobs:
    tile_bytes: int = knob(
        32768, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )


def row_tile(device: Device, rows: Rows) -> Tile:
    """Return a tile of several short rows for one warp, or a block of one row, with 64 bytes per thread or more."""
    knobs, cols = of(Knobs, device.index), next_power_of_two(rows.n)
    many = min(knobs.warp_bytes // rows.itemsize, TILE_ELEMENTS // 4) // cols
    if many > 1:
        return adjacent_rows_tile(rows, many, cols, 1)
    elements = min(cols, knobs.tile_bytes // rows.itemsize, TILE_ELEMENTS)
    fed = next_power_of_two(min(rows.n, elements) + 1) // 2
    return adjacent_rows_tile(rows, 1, elements, device.warps(fed * rows.itemsize // 64))


def running_min_tile(device: Device, rows: Rows) -> Tile:
    """Return ``row_tile``, or for strided rows a block of neighbouring columns with 16 elements per thread."""
    return loop_tile(rows, 16384) if rows.is_strided else row_tile(device, rows)


def kernel_constants(rows: Rows, x: torch.Tensor) -> tuple[Any, ...]:
    """Return the highest value, the dtype of comparisons and, if rows are uneven, log2 of elements per vector."""
    return min_identity(x.dtype), tiles.acc_dtype(x), *([tiles.vector_log2(rows)] if tiles.hides_vectors(rows) else [])
