"""Tiles that the forms of the minimum share, and their tuning knobs."""

from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.shared.long_rows import LINE_BYTES
from kernelzoo.kernels.triton.softmax.tiles import padded_length
from kernelzoo.layout import Rows, next_power_of_two
from kernelzoo.tables import form_knobs, knob

TILE_ELEMENTS = 8192
"""The most elements in a tile of rows. It matters for one-byte elements."""

ACROSS_BYTES = 65536
"""The most bytes in a tile of columns, for 512 threads."""

ONCE_BYTES = 65536
"""The most bytes of a row, 64 per thread, that are read at once if rows are few. Then no other row hides latency."""

MANY_PARTS = 1024
"""The most programs per row. The last to finish reads the results of all."""


@form_knobs
class Knobs:
    # Three or four such programs per SM have 40 kB or more in flight, as an SM needs to use its part of the bandwidth.
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
    """A program's tile of rows x block elements, both powers of two, and the number of threads that read it."""

    rows: int
    block: int
    threads: int


def whole_row_tile(knobs: Knobs, rows: Rows, dtype: torch.dtype, device: Device, edges: int) -> Tile | None:
    """Return a tile of one complete row, or None if rows are many, short or too long."""
    if rows.x_n != 1 or rows.is_strided or not dtype.is_floating_point:
        return None
    columns = padded_length(rows.n, edges)
    bytes = columns * dtype.itemsize
    # All programs run at once: 32 registers per thread in float32 without edges, else up to 64. ``block_tile`` already
    # reads up to half a tile at once.
    resident = device.threads * device.multiprocessors // (2 if edges or dtype.itemsize != 4 else 1)
    few = rows.total * (bytes // 64) <= resident
    return Tile(1, columns, bytes // 64) if few and knobs.tile_bytes // 2 < bytes <= ONCE_BYTES else None


def block_tile(knobs: Knobs, rows: Rows, dtype: torch.dtype, most_rows: int = TILE_ELEMENTS) -> Tile:
    """Return a tile for kernels that loop over blocks: of some rows, or of the columns that fill one memory line."""
    if rows.is_strided:
        side = LINE_BYTES // dtype.itemsize
        # Elements that are read one by one need registers for an address each.
        vectors = dtype.itemsize > 1 and rows.x_n * dtype.itemsize % 16 == 0
        elements = min(ACROSS_BYTES // dtype.itemsize, (4 if vectors else 2) * TILE_ELEMENTS)
        block = min(elements // side, next_power_of_two(rows.n))
        return Tile(side, block, min(512, max(128, side * block // 16)))
    elements = min(knobs.tile_bytes // dtype.itemsize, TILE_ELEMENTS)
    block = min(elements, next_power_of_two(rows.n))
    return Tile(min(elements // block, most_rows), block, 128 if dtype.itemsize == 1 else 256)
