"""Tiles and their layouts: which thread of a program holds which elements of which rows. Chosen here, for every kernel.

A layout is ``BlockedLayout(elements of a thread, threads of a warp, warps of the program, order)``, two numbers each,
one along the rows' count and one along a row; what is smaller than the tile is repeated until it covers it.
"""

from typing import Any, NamedTuple

import torch
from triton.experimental.gluon import language as gl

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import by_columns, column_arguments, common, edges_of, row_arguments
from kernelzoo.layout import Columns, Rows, Strides, cdiv, power_of_two

LANES = 32
"""Threads of a warp."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows that lie across memory are taken by the cache line, at the least by the sector of a line."""


class Tile(NamedTuple):
    """A program's tile: rows, elements of each, warps, whether it lies across memory, neighbours there that a thread
    has, and the layouts of the tile and of its rows' edges."""

    rows: int
    cols: int
    warps: int
    across: bool
    vector: int
    layout: gl.BlockedLayout
    edge_layout: gl.BlockedLayout

    def count(self, rows: Rows) -> int:
        """Tiles that a problem has."""
        return rows.columns.strips(self.rows) if self.across and rows.columns else cdiv(rows.total, self.rows)

    def constants(self, far: bool) -> tuple[object, ...]:
        """ACROSS, FAR, ROWS, COLS, LAYOUT and EDGE_LAYOUT of a kernel."""
        return self.across, far, self.rows, self.cols, self.layout, self.edge_layout


def along(rows: Rows, many: int, cols: int, warps: int, *others: Strides) -> Tile:
    """A tile of rows that lie along memory: each thread has whole vectors of them."""
    edges, vector = edges_of(rows, *others), min(vector_of(rows, *others), cols)
    lanes = min(LANES, cols // vector)
    spread = [1, warps] if many == 1 else [warps, 1]
    layout = gl.BlockedLayout([1, vector], [LANES // lanes, lanes], spread, [1, 0])
    edge = gl.BlockedLayout([1, max(1, 2 * edges // lanes)], [LANES // lanes, lanes], spread, [1, 0])
    return Tile(many, cols, warps, False, vector, layout, edge)


def across(columns: Columns, many: int, depth: int, warps: int, *others: Strides) -> Tile:
    """A tile of columns that lie side by side: each thread has whole vectors of neighbours."""
    vector = 1
    if columns.x_inner == 1 and not columns.x_phase and not any(o.n and (o.phase or o.inner != 1) for o in others):
        vector = min(column_multiple(columns, *others), many)
    lanes = min(LANES, many // vector)
    layout = gl.BlockedLayout([vector, 1], [lanes, LANES // lanes], [1, warps], [0, 1])
    return Tile(many, depth, warps, True, vector, layout, layout)


def vector_of(rows: Rows, *others: Strides) -> int:
    """Neighbours in a row that every tensor has in one aligned piece of memory, at most a vector of 16 bytes."""
    if edges_of(rows, *others):
        return rows.whole_vector
    if rows.x_n != 1 or rows.x_phase or (rows.out_n and (rows.out_n != 1 or rows.out_phase)):
        return 1
    if any(other.n and (other.n != 1 or other.phase) for other in others):
        return 1
    return min(rows.whole_vector, common(rows, *others))


def column_multiple(columns: Columns, *others: Strides) -> int:
    """``columns.multiple``, with the strides of other tensors of n elements a column."""
    found = columns.multiple
    for other in others:
        if other.n:
            found = min(found, *(stride & -stride for stride in (other.outer, other.n) if stride))
    return found


def place_arguments(rows: Rows, tile: Tile, *others: Strides) -> tuple[int, ...]:
    """A kernel's arguments that say where rows lie: ``row_arguments`` of a tile along memory, ``column_arguments`` of
    one across it. The strides of other tensors of n elements a row follow: outer, n and inner of each."""
    if tile.across and rows.columns is not None:
        return column_arguments(rows.columns, *(by_columns(rows, other) for other in others))
    return row_arguments(rows, *others)


def one_a_row(rows: Rows, tile: Tile, *others: Strides) -> tuple[int, ...]:
    """The strides of tensors that have one element a row: outer and inner of each."""
    strides = (by_columns(rows, other) if tile.across else other for other in others)
    return tuple(stride for other in strides for stride in (other.outer, other.inner))


def is_far(rows: Rows, tile: Tile, *others: Strides) -> bool:
    """Whether offsets within a tile's row need 64 bits."""
    return tile.cols * max(rows.x_n, rows.out_n, *(other.n for other in others)) >= 2**31


def wide_bytes(rows: Rows) -> int:
    """Bytes of an element as it is computed."""
    return max(4, rows.itemsize)


def inside(rows: Rows, *others: Strides) -> int:
    """Elements of a row that a tile has, its edges aside, at the most."""
    edges = edges_of(rows, *others)
    return max(1, rows.n // edges * edges if edges else rows.n)


HELD_BYTES = 65536
"""Of a strip of columns as it is computed, that a program holds: 64 registers of each of 256 threads."""


def strip(rows: Rows, inputs: int, implementation: str, *others: Strides) -> Tile:
    """A tile of whole columns, which a program holds. inputs: how many tensors of n elements a column are held.

    Raises UnsupportedProblemError where rows don't lie across memory, or no program holds them.
    """
    if rows.columns is None:
        words = "it takes columns, and the rows of this problem don't lie across memory"
        raise UnsupportedProblemError(implementation, words)
    made = strip_or_none(rows, inputs, *others)
    if made is None:
        raise UnsupportedProblemError(implementation, f"no program holds columns of {rows.n} elements")
    return made


def strip_or_none(rows: Rows, inputs: int, *others: Strides) -> Tile | None:
    """``strip``, None where there is none: a line of memory of columns, or down to a sector if they fit then."""
    columns = rows.columns
    if columns is None:
        return None
    depth = power_of_two(rows.n)
    wide = min(LINE_BYTES // rows.itemsize, power_of_two(columns.inner))
    room = HELD_BYTES // wide_bytes(rows) // inputs
    while wide * depth > room and wide * rows.itemsize > SECTOR_BYTES:
        wide //= 2
    if wide * depth > room:
        return None
    warps = max(1, min(8, wide * depth * inputs * wide_bytes(rows) // (128 * LANES)))
    return across(columns, wide, depth, warps, *(by_columns(rows, other) for other in others))


def block(rows: Rows, bytes: int, *others: Strides) -> Tile:
    """A tile of so many bytes as computed, for kernels that go through rows in blocks: a part of one row, or of each of
    a line's worth of columns."""
    elements, columns = bytes // wide_bytes(rows), rows.columns
    if columns is not None:
        wide = min(LINE_BYTES // rows.itemsize, power_of_two(columns.inner))
        depth = max(1, min(power_of_two(rows.n), elements // wide))
        return across(columns, wide, depth, _warps(rows, wide * depth), *(by_columns(rows, o) for o in others))
    cols = min(elements, power_of_two(inside(rows, *others)))
    return along(rows, 1, cols, _warps(rows, cols), *others)


def _warps(rows: Rows, elements: int) -> int:
    """16 elements of float32 to a thread."""
    return max(1, min(8, elements * wide_bytes(rows) // (64 * LANES)))


def held_options(device: Device, tile: Tile) -> dict[str, Any]:
    """What the compiler is told of the registers of a kernel that holds its tile.

    Of columns, and but for an H200, the assembler spills a few for the sake of one program more to an SM, unless it is
    told how many there are.
    """
    few = device.arch in ("", "sm_90") and not tile.across
    return {} if few or not device.arch else {"maxnreg": min(255, device.registers // (tile.warps * LANES))}


def lowest(dtype: torch.dtype) -> float:
    """The lowest finite number: where a running maximum begins, so that no difference of two is -inf - -inf."""
    return float(torch.finfo(dtype).min)
