"""Tiles for Triton's and Gluon's kernels that loop over the blocks of a row: rows, columns, programs and warps."""

from typing import NamedTuple

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.layout import Rows, cdiv, next_power_of_two

TILE_BYTES = 16384
"""Bytes of a tile in its accumulator dtype: 16 float32 elements for each of 256 threads."""

THREAD_BYTES = 64
"""Bytes of a tile per thread, in its accumulator dtype."""

IN_REGISTERS, SHORT_ROW = 16384, 1024
"""The most elements of a row that fits in registers (16 float32 in each of 1024 threads), and of a short row."""


class Tile(NamedTuple):
    """The tile that a program computes at a time, and the launch's grid and warps."""

    rows: int
    block: int
    """Columns: a power of two."""
    programs: int
    warps: int


def choose_tile(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """Return the tile for a kernel that keeps a tile of each of ``tensors`` tensors in registers.

    Short rows share a tile if each multiprocessor still gets several programs. If rows are strided, a tile
    has at least a cache line of neighbouring rows.
    """
    device, wide = device_of(x), rows.accumulator_bytes
    elements = TILE_BYTES // wide // next_power_of_two(tensors)
    least = min(LINE_BYTES // rows.itemsize, next_power_of_two(rows.total)) if rows.is_strided else 1
    block = min(elements // least, next_power_of_two(rows.n))
    spread = next_power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    side = max(least, min(elements // block, spread))
    return Tile(side, block, cdiv(rows.total, side), device.warps(side * block * wide * tensors // THREAD_BYTES))


def register_tile(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """Return a tile of one complete row, if the row is long but fits in registers; else that of ``choose_tile``.

    A complete row is processed with four vectors per thread.
    """
    if rows.is_strided or not SHORT_ROW < rows.n <= IN_REGISTERS * 4 // rows.accumulator_bytes:
        return choose_tile(x, rows, tensors)
    block = next_power_of_two(rows.n)
    return Tile(1, block, rows.total, device_of(x).warps(block * rows.itemsize // THREAD_BYTES))


def persistent_tile(x: torch.Tensor, rows: Rows, tensors: int) -> Tile:
    """Return the tile for persistent programs, at most two per multiprocessor. If a row fits in registers, the tile
    has a complete row."""
    tile, wide = choose_tile(x, rows, tensors), rows.accumulator_bytes
    if not rows.is_strided and tile.block < rows.n <= IN_REGISTERS * 4 // wide:
        block = next_power_of_two(rows.n)
        tile = Tile(1, block, rows.total, device_of(x).warps(block * wide // THREAD_BYTES))
    return tile._replace(programs=max(1, min(tile.programs, 2 * device_of(x).multiprocessors)))
