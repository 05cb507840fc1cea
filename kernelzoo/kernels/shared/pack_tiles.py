"""Tiles for Triton's and Gluon's kernels in which each thread first reduces its own elements; plans of split rows."""

import math
from typing import NamedTuple

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, count_row_parts
from kernelzoo.layout import Rows, cdiv, next_power_of_two

THREAD_BYTES, THREAD_ELEMENTS = 64, 32
"""The most bytes and the most elements of a block per thread. The bytes are those of four vectors."""

LONG_THREADS, MANY_THREADS, SHORT_THREADS = 512, 256, 128
"""The most threads per program: for one of few long rows, for one of many (or strided) rows, for several short rows."""

SCANNED = 4096
"""Elements of a tile in a scan, 16 per thread."""


class PackTile(NamedTuple):
    """A program's tile. Along each row, ``lanes`` threads load ``vector`` neighbouring elements each."""

    rows: int
    block: int
    lanes: int
    vector: int
    programs: int
    warps: int

    @property
    def constants(self) -> tuple[int, ...]:
        """A kernel's constants ROWS, BLOCK, LANES and VECTOR."""
        return self[:4]


def pack_tile(x: torch.Tensor, rows: Rows, n: int = 0) -> PackTile:
    """Return the tile for a reduction of rows, or of parts of ``n`` elements. Threads first reduce their own elements.

    A tile has several short rows. If rows are strided (``is_strided``), it has a cache line of neighbouring rows."""
    device, n = device_of(x), n or rows.n
    elements = min(THREAD_ELEMENTS, THREAD_BYTES // rows.itemsize)
    if rows.is_strided:
        side = min(LINE_BYTES // rows.itemsize, next_power_of_two(rows.total))
        block = min(next_power_of_two(n), MANY_THREADS * elements // side)
        warps = device.warps(side * block // elements)
        vector, lanes = 1, warps * device.warp_size * min(side, strided_vector_width(rows)) // side
    else:
        spread = next_power_of_two(1 + rows.planned // (8 * device.multiprocessors))
        block = min(next_power_of_two(n), (LONG_THREADS if spread == 1 else MANY_THREADS) * elements)
        side = max(1, min(SHORT_THREADS * elements // block, spread))
        warps = device.warps(side * block // elements)
        vector, lanes = min(block, row_vector_width(rows)), warps * device.warp_size
    lanes = max(1, min(lanes, block // vector))
    return PackTile(side, block, lanes, vector, cdiv(rows.total, side), warps)


def row_vector_width(rows: Rows) -> int:
    """Return how many elements of a row to load at once: up to 16 bytes, if all rows are aligned accordingly."""
    return 1 if rows.x_n != 1 or rows.x_phase else min(rows.vector_elements, rows.offset_gcd())


def strided_vector_width(rows: Rows) -> int:
    """Return how many strided rows to load from at once, one element of each: up to 16 bytes."""
    steps = rows.x_n, *((rows.inner, rows.x_outer) if rows.inner > 1 else ())
    return 1 if rows.row_stride != 1 or rows.x_phase else math.gcd(rows.vector_elements, *steps)


class PackPlan(NamedTuple):
    """A split of each row: the number of parts, elements per part (except the last), and the tile of a program."""

    parts: int
    span: int
    tile: PackTile

    @property
    def programs(self) -> int:
        return self.tile.programs * self.parts

    @property
    def padded_parts(self) -> int:
        """The constant PARTS of a kernel that merges the parts: their number, rounded up to a power of two."""
        return next_power_of_two(self.parts)


def plan_parts(x: torch.Tensor, rows: Rows) -> PackPlan:
    """Return a plan whose parts fill the device. All but the last have whole blocks; none is empty unless rows are."""
    wanted = max(1, cdiv(rows.n, count_row_parts(rows, device_of(x))))
    tile = pack_tile(x, rows, wanted)
    span = cdiv(wanted, tile.block) * tile.block
    return PackPlan(max(1, cdiv(rows.n, span)), span, tile)
