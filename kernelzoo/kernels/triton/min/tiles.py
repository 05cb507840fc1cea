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


@numbers
class RowNumbers(Numbers):
    # Eight 16-byte loads to a lane. No warp waits for another.
    warp_bytes: int = knob(
        4096, among=(2048, 4096, 8192), unit="bytes", why="of a tile of short rows, all of which one warp reads"
    )
    row_bytes: int = knob(
        32768,
        among=(16384, 32768, 65536),
        unit="bytes",
        why="of a row that is read at once, or in halves at the most: nothing to defer",
    )


def fold_of(rows: Rows, dtype: torch.dtype, block: int) -> int:
    """Neighbouring columns that one thread loads, and can reduce by itself: FOLD of ``folded``."""
    return min(16 // dtype.itemsize, block) if rows.x_n == 1 and not rows.across and dtype.is_floating_point else 1


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


def row_tile(numbers: RowNumbers, rows: Rows, dtype: torch.dtype, edges: int) -> Tile:
    """The tile of ``rows``: several short rows, one at once, or a block of a long one."""
    columns = power_of_two(rows.n // edges * edges if edges else rows.n)
    if rows.across or columns * dtype.itemsize > numbers.row_bytes:
        return block_tile(numbers, rows, dtype)
    # 64 bytes to a thread, and more to the threads of a single warp.
    block = min(columns, TILE_ELEMENTS)
    most = numbers.warp_bytes // dtype.itemsize if dtype.itemsize > 1 else TILE_ELEMENTS // 4
    # As many as the row can feed, of halves as many as the tile has, lest a thread hold more than 32.
    threads = max(32, (block if dtype.itemsize == 2 else min(rows.n, block)) * dtype.itemsize // 64)
    return Tile(max(1, most // block), block, power_of_two(threads + 1) // 2)
