"""Tiles and their layouts: which thread of a program holds which elements of which rows. Chosen here, for every kernel.

A layout is ``BlockedLayout(elements of a thread, threads of a warp, warps of the program, order)``, two numbers each,
one along the rows' count and one along a row; what is smaller than the tile is repeated until it covers it.
"""

from typing import Any, NamedTuple

import torch
from triton.experimental.gluon import language as gl

from kernelzoo.device import Device
from kernelzoo.kernels.shared import held_rows
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES, check_held, line_of, row_threads, strip_of
from kernelzoo.kernels.shared.jit import by_columns, column_arguments, edges_of, row_arguments
from kernelzoo.layout import Columns, Rows, Strides, cdiv, power_of_two
from kernelzoo.tables import numbers, of

LANES = 32
"""Threads of a warp."""

CROWD = 4
"""Programs per SM that fill the device."""


class Tile(NamedTuple):
    """A program's tile and its layouts. Its fields are rows, elements of each, warps, whether it
    lies across memory, neighbours there that a thread has, and the layouts of the tile and of its rows' edges."""

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

    def constants(self, rows: Rows, *others: Strides) -> tuple[object, ...]:
        """EDGES, ACROSS, FAR, ROWS, COLS, LAYOUT and EDGE_LAYOUT of a kernel. Others have n elements a row."""
        edges = 0 if self.across else edges_of(rows, *others)
        far = self.cols * max(rows.x_n, rows.out_n, *(other.n for other in others)) >= 2**31  # offsets within a row
        return edges, self.across, far, self.rows, self.cols, self.layout, self.edge_layout


def along(rows: Rows, many: int, cols: int, warps: int, *others: Strides) -> Tile:
    """A tile of rows that lie along memory: each thread has whole vectors of them."""
    edges, vector = edges_of(rows, *others), min(vector_of(rows, *others), cols)
    lanes = min(LANES, cols // vector)
    spread = [1, warps] if many == 1 else [warps, 1]
    layout = gl.BlockedLayout([1, vector], [LANES // lanes, lanes], spread, [1, 0])
    edge = gl.BlockedLayout([1, max(1, 2 * edges // lanes)], [LANES // lanes, lanes], spread, [1, 0])
    return Tile(many, cols, warps, False, vector, layout, edge)


def across(rows: Rows, columns: Columns, many: int, depth: int, warps: int, *others: Strides) -> Tile:
    """A tile of columns that lie side by side: each thread has whole vectors of neighbours."""
    beside, vector = [by_columns(rows, other) for other in others], 1
    if columns.x_inner == 1 and not columns.x_phase and not any(o.n and (o.phase or o.inner != 1) for o in beside):
        strides = [stride for other in beside if other.n for stride in (other.outer, other.n) if stride]
        vector = min(columns.multiple, many, *(stride & -stride for stride in strides))
    lanes = min(LANES, many // vector)
    layout = gl.BlockedLayout([vector, 1], [lanes, LANES // lanes], [1, warps], [0, 1])
    return Tile(many, depth, warps, True, vector, layout, layout)


def vector_of(rows: Rows, *others: Strides) -> int:
    """Elements of the longest aligned vectors that rows of every tensor have, at most of 16 bytes."""
    if edges_of(rows, *others):
        return rows.whole_vector
    if rows.x_n != 1 or rows.x_phase or (rows.out_n and (rows.out_n != 1 or rows.out_phase)):
        return 1
    if any(other.n and (other.n != 1 or other.phase) for other in others):
        return 1
    return min(rows.whole_vector, rows.common(*others))


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


def inside(rows: Rows, *others: Strides) -> int:
    """Elements of a row that a tile has, its edges aside, at the most."""
    edges = edges_of(rows, *others)
    return max(1, rows.n // edges * edges if edges else rows.n)


def lowest(dtype: torch.dtype) -> float:
    """The lowest finite number: where a running maximum begins, so that no difference of two is -inf - -inf."""
    return float(torch.finfo(dtype).min)


# --- Tiles of whole rows, which a program holds ----------------------------------------------------------------------


@numbers
class Numbers(held_rows.Numbers):
    """Those of rows that programs hold."""


def held(id: str, device: Device, rows: Rows, inputs: int, *others: Strides) -> Tile:
    """Short rows side by side, which one warp holds; one row; or a strip of columns. A strip is a line wide if it fits.
    inputs: how many tensors of n elements a row are held. Raises UnsupportedProblemError if none fits."""
    check_held(id, rows, inputs)
    if rows.columns is not None:
        depth, wide = power_of_two(rows.n), strip_of(rows.columns, inputs)
        warps = max(1, min(8, wide * depth * inputs * rows.wide_bytes // (128 * LANES)))
        return across(rows, rows.columns, wide, depth, warps, *others)
    knobs, cols = of(Numbers, device.index), power_of_two(inside(rows, *others))
    many = knobs.warp_bytes // rows.wide_bytes // inputs // cols
    if many > 1:
        even = power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return along(rows, min(many, even), cols, 1, *others)
    threads = min(1024, row_threads(knobs, rows, rows.n) * inputs)
    return along(rows, 1, cols, device.warps(threads), *others)


def held_options(device: Device, tile: Tile) -> dict[str, Any]:
    """What the compiler is told of the registers of a kernel that holds its tile.

    Of columns, and but for an H200, the assembler spills a few for the sake of one program more to an SM, unless it is
    told how many there are.
    """
    few = device.arch in ("", "sm_90") and not tile.across
    return {} if few or not device.arch else {"maxnreg": min(255, device.registers // (tile.warps * LANES))}


# --- Blocks and parts of longer rows ---------------------------------------------------------------------------------

BLOCK_BYTES = 16384
"""Of a block of a running state: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""

LEAST_PART = 4096
"""Elements of a tile's rows together that are worth a program of their own."""

MOST_PARTS = 256
"""Programs to a tile, at the most: each, or the last, reads what all of them have left."""


def block(rows: Rows, bytes: int, *others: Strides) -> Tile:
    """A tile of so many bytes as computed, for kernels that go through rows in blocks. It is a part of one row, or of
    each of a line's worth of columns."""
    elements, columns = bytes // rows.wide_bytes, rows.columns
    if columns is not None:
        wide = line_of(columns)
        depth = max(1, min(power_of_two(rows.n), elements // wide))
        return across(rows, columns, wide, depth, _warps(rows, wide * depth), *others)
    cols = min(elements, power_of_two(inside(rows, *others)))
    return along(rows, 1, cols, _warps(rows, cols), *others)


def _warps(rows: Rows, elements: int) -> int:
    """16 elements of float32 to a thread."""
    return max(1, min(8, elements * rows.wide_bytes // (64 * LANES)))


class Cut(NamedTuple):
    """How rows are cut: programs to a tile, units of each row that one takes, and elements of a unit. merged: the power
    of two that holds what all have left."""

    parts: int
    span: int
    unit: int
    merged: int


def cut(rows: Rows, tile: Tile, device: Device, *others: Strides) -> Cut:
    """Parts of rows for as many programs as fill the device, at least two where vectors suffice."""
    unit = 1 if tile.across else vector_of(rows, *others)
    elements = rows.n if tile.across else inside(rows, *others)
    wanted = cdiv(CROWD * device.multiprocessors, tile.count(rows.as_planned))
    most = min(MOST_PARTS, tile.rows * elements // LEAST_PART, max(2, tile.cols))
    parts = max(2, min(wanted, most))
    span = cdiv(elements, parts * unit)
    parts = cdiv(elements, span * unit)
    return Cut(parts, span, unit, power_of_two(parts))


def streamed(device: Device, rows: Rows, *others: Strides) -> str:
    """The form of a gradient for rows that no program holds: online if they are many, else split_two_launches."""
    many = block(rows, ON_CHIP_BYTES, *others).count(rows.as_planned) >= CROWD * device.multiprocessors
    return "online" if many else "split_two_launches"
