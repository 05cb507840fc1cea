"""Tiles that the forms of the minimum share, and the constants of their kernels."""

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.gluon.tiles import Tile, make_block_tile, make_row_tile, max_length_in_vectors
from kernelzoo.kernels.shared.jit import wide_type
from kernelzoo.layout import Rows, min_identity, next_power_of_two
from kernelzoo.tables import form_knobs, knob, of

TILE_ELEMENTS = 8192
"""The most elements in a tile of rows. It matters for one-byte elements."""


@form_knobs
class Knobs:
    tile_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )


def row_tile(device: Device, rows: Rows) -> Tile:
    """Return a tile: several short rows for one warp, or a block of one row, with 64 bytes per thread."""
    knobs, cols = of(Knobs, device.index), next_power_of_two(max_length_in_vectors(rows))
    many = min(knobs.warp_bytes // rows.itemsize, TILE_ELEMENTS // 4) // cols
    if many > 1:
        return make_row_tile(rows, many, cols, 1)
    elements = min(cols, knobs.tile_bytes // rows.itemsize, TILE_ELEMENTS)
    fed = next_power_of_two(min(rows.n, elements) + 1) // 2
    return make_row_tile(rows, 1, elements, device.warps(fed * rows.itemsize // 64))


def block_tile(device: Device, rows: Rows) -> Tile:
    """Return ``row_tile`` or, for columns, a block: 32 float32 elements per thread, or 16 if read one by one."""
    if not rows.is_strided:
        return row_tile(device, rows)
    tile = make_block_tile(rows, 32768)
    return tile if tile.vector > 1 else make_block_tile(rows, 16384)


def min_constants(rows: Rows, dtype: torch.dtype, tile: Tile) -> tuple[object, ...]:
    """Return a kernel's constants: ACC_DTYPE, IDENTITY and those of its tile."""
    return wide_type(dtype), min_identity(dtype), *tile.kernel_constants(rows)
