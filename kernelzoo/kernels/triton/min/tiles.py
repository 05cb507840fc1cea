"""Tiles of rows by blocks of columns, their numbers, and what all forms hand to their kernels."""

from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.triton.softmax.tiles import tile_columns
from kernelzoo.layout import Rows, power_of_two
from kernelzoo.tables import knob, numbers

TILE_ELEMENTS = 8192
"""A tile of elements narrower than two bytes ends here."""

ACROSS_BYTES = 65536
"""Of a tile across rows, to 512 threads."""

ONCE_BYTES = 65536
"""Of a row, 64 to a thread, that one program reads at once where rows are few: no other hides the time of a round."""

MANY_PARTS = 1024
"""Programs to one row, at the most: the last to arrive reads the results of all."""


@numbers
class Numbers:
    # Three or four such programs an SM make the 40 kB and more in flight that its share of the memory's speed takes.
    tile_bytes: int = knob(
        16384, among=(8192, 16384, 32768), unit="bytes", why="of input under way in a program of one row"
    )
    crowd: int = knob(
        4,
        among=(2, 4, 8),
        unit="programs per SM",
        why="from which a chip is well filled: of rows with fewer, several programs take each",
    )


class Tile(NamedTuple):
    """A tile of a program, its sides powers of two, and the threads that read it."""

    rows: int
    block: int
    threads: int


def once_tile(numbers: Numbers, rows: Rows, dtype: torch.dtype, device: Device, edges: int) -> Tile | None:
    """A whole row of few, or None where they are many, short or too long."""
    if rows.x_n != 1 or rows.across or not dtype.is_floating_point:
        return None
    columns = tile_columns(rows.n, edges)
    bytes = columns * dtype.itemsize
    # All at once: a thread has 32 registers in float32 without edges, else up to 64. Half a tile is read so anyway.
    resident = device.threads * device.multiprocessors // (2 if edges or dtype.itemsize != 4 else 1)
    few = rows.total * (bytes // 64) <= resident
    return Tile(1, columns, bytes // 64) if few and numbers.tile_bytes // 2 < bytes <= ONCE_BYTES else None


def block_tile(numbers: Numbers, rows: Rows, dtype: torch.dtype, most_rows: int = TILE_ELEMENTS) -> Tile:
    """The tile of the kernels that loop over blocks of columns: whole lines of memory, along rows or across them."""
    if rows.across:
        side = LINE_BYTES // dtype.itemsize
        # Elements that are read one by one need an address each, and registers for it.
        wide = dtype.itemsize > 1 and rows.x_n * dtype.itemsize % 16 == 0
        elements = min(ACROSS_BYTES // dtype.itemsize, (4 if wide else 2) * TILE_ELEMENTS)
        block = min(elements // side, power_of_two(rows.n))
        return Tile(side, block, min(512, max(128, side * block // 16)))
    elements = min(numbers.tile_bytes // dtype.itemsize, TILE_ELEMENTS)
    block = min(elements, power_of_two(rows.n))
    return Tile(min(elements // block, most_rows), block, 128 if dtype.itemsize == 1 else 256)
