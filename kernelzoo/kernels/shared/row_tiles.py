"""Tiles of rows for kernels that go along a row block by block: how many rows and columns, and how many programs.

Triton and Gluon have them in common.
"""

from typing import NamedTuple

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.layout import Rows, cdiv, power_of_two

TILE_BYTES = 16384
"""Of a tile as computed: 16 float32 elements to each of 256 threads."""

THREAD_BYTES = 64
"""Of a tile as computed, to a thread."""

HELD, SHORT = 16384, 1024
"""Elements of the longest row that a program holds, 16 float32 to each of 1024 threads, and of those taken together."""


class Tile(NamedTuple):
    """What each program takes at a time."""

    rows: int
    block: int
    """Columns: a power of two."""
    programs: int
    warps: int


def tile_of(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """The tile for a kernel that holds so many tensors' elements at each place.

    Short rows are taken together, as long as each multiprocessor has several programs; where memory is contiguous
    across rows, a line of them at the least.
    """
    device, wide = device_of(x), rows.wide_bytes
    elements = TILE_BYTES // wide // power_of_two(tensors)
    least = min(LINE_BYTES // rows.itemsize, power_of_two(rows.total)) if rows.across else 1
    block = min(elements // least, power_of_two(rows.n))
    spread = power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    side = max(least, min(elements // block, spread))
    return Tile(side, block, cdiv(rows.total, side), device.warps(side * block * wide * tensors // THREAD_BYTES))


def held_tile(x: torch.Tensor, rows: Rows, tensors: int = 1) -> Tile:
    """The tile that holds whole rows, where a program can: its block is no shorter than a row. Else ``tile_of``'s.

    A long row has a program of its own, with four vectors to a thread.
    """
    if rows.across or not SHORT < rows.n <= HELD * 4 // rows.wide_bytes:
        return tile_of(x, rows, tensors)
    block = power_of_two(rows.n)
    return Tile(1, block, rows.total, device_of(x).warps(block * rows.itemsize // THREAD_BYTES))


def turns_of(x: torch.Tensor, rows: Rows, tensors: int) -> Tile:
    """The tile for programs that take rows in turn: as many as multiprocessors, twice, and a block that holds a row
    where one can."""
    tile, wide = tile_of(x, rows, tensors), rows.wide_bytes
    if not rows.across and tile.block < rows.n <= HELD * 4 // wide:
        block = power_of_two(rows.n)
        tile = Tile(1, block, rows.total, device_of(x).warps(block * wide // THREAD_BYTES))
    return tile._replace(programs=max(1, min(tile.programs, 2 * device_of(x).multiprocessors)))
