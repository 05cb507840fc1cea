"""Tiles for kernels in which each thread first reduces its own elements of a block, and plans of rows in parts.

Triton and Gluon have them in common.
"""

import math
from typing import NamedTuple

import torch

from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, parts_of
from kernelzoo.layout import Rows, cdiv, power_of_two

THREAD_BYTES, THREAD_ELEMENTS = 64, 32
"""Of a block to a thread, at the most: four vectors."""

ALONG, ACROSS, SHORT = 512, 256, 128
"""Threads of a program at the most: of a long row, of rows that lie across memory, and of several short ones."""

SCANNED = 4096
"""Elements of a tile that is scanned, 16 to a thread."""


class PackTile(NamedTuple):
    """What each program takes at a time, and how many threads of a row have how many elements side by side."""

    rows: int
    block: int
    lanes: int
    vector: int
    programs: int
    warps: int

    @property
    def constants(self) -> tuple[int, ...]:
        """ROWS, BLOCK, LANES and VECTOR of a kernel."""
        return self[:4]


def pack_tile(x: torch.Tensor, rows: Rows, n: int = 0) -> PackTile:
    """The tile for a kernel that reduces rows, or parts of n elements, and of each thread's elements of a block first.

    Short rows are taken together; where memory is contiguous across rows, a line of them.
    """
    device, n = device_of(x), n or rows.n
    elements = min(THREAD_ELEMENTS, THREAD_BYTES // rows.itemsize)
    if rows.across:
        side = min(LINE_BYTES // rows.itemsize, power_of_two(rows.total))
        block = min(power_of_two(n), ACROSS * elements // side)
        warps = device.warps(side * block // elements)
        vector, lanes = 1, warps * device.warp_size * min(side, vector_across(rows)) // side
    else:
        block = min(power_of_two(n), ALONG * elements)
        spread = power_of_two(1 + rows.planned // (8 * device.multiprocessors))
        side = max(1, min(SHORT * elements // block, spread))
        warps = device.warps(side * block // elements)
        vector, lanes = min(block, vector_along(rows)), warps * device.warp_size
    lanes = max(1, min(lanes, block // vector))
    return PackTile(side, block, lanes, vector, cdiv(rows.total, side), warps)


def vector_along(rows: Rows) -> int:
    """Elements of a row that one load takes: as many as all rows begin with together, up to 16 bytes."""
    return 1 if rows.x_n != 1 or rows.x_phase else min(rows.whole_vector, rows.common())


def vector_across(rows: Rows) -> int:
    """Rows of which one load takes an element each, up to 16 bytes."""
    steps = rows.x_n, *((rows.inner, rows.x_outer) if rows.inner > 1 else ())
    return 1 if rows.step != 1 or rows.x_phase else math.gcd(rows.whole_vector, *steps)


class Plan(NamedTuple):
    """Parts of each row, elements of each but the last, and the tile of the programs that take them."""

    parts: int
    span: int
    tile: PackTile

    @property
    def programs(self) -> int:
        return self.tile.programs * self.parts

    @property
    def lanes(self) -> int:
        """PARTS of a kernel that merges."""
        return power_of_two(self.parts)


def plan_of(x: torch.Tensor, rows: Rows) -> Plan:
    """Parts that fill the device, each whole blocks but the last; none is empty unless rows are."""
    wanted = max(1, cdiv(rows.n, parts_of(rows, device_of(x))))
    tile = pack_tile(x, rows, wanted)
    span = cdiv(wanted, tile.block) * tile.block
    return Plan(max(1, cdiv(rows.n, span)), span, tile)
