"""Tiles and their layouts: a layout assigns the elements of a tile to the threads of a program.

A layout is ``BlockedLayout(elements per thread, threads per warp, warps per program, order)``. Each argument is a pair:
over rows, and along a row. A layout that is smaller than the tile is repeated until it covers the tile.
"""

from typing import Any, NamedTuple

import torch
from triton.experimental.gluon import language as gl

from kernelzoo.device import Device
from kernelzoo.kernels.shared import held_rows
from kernelzoo.kernels.shared.held_rows import ON_CHIP_BYTES, check_fits, line_width, row_threads, strip_width
from kernelzoo.kernels.shared.jit import column_arguments, edge_vector_size, row_arguments, to_column_strides
from kernelzoo.layout import Columns, Rows, Strides, cdiv, next_power_of_two
from kernelzoo.tables import form_knobs, of

LANES = 32
"""Threads per warp."""

CROWD = 4
"""The number of programs per SM that fills the device."""


class Tile(NamedTuple):
    """A program's tile of rows x cols elements. across: whether neighbours in memory belong to adjacent rows. vector:
    adjacent elements per thread. edge_layout: the layout of the tile of edges, see ``device_functions``."""

    rows: int
    cols: int
    warps: int
    across: bool
    vector: int
    layout: gl.BlockedLayout
    edge_layout: gl.BlockedLayout

    def count_tiles(self, rows: Rows) -> int:
        """Return how many tiles cover all rows of a problem."""
        columns = rows.as_columns if self.across else None
        return columns.strip_count(self.rows) if columns else cdiv(rows.total, self.rows)

    def kernel_constants(self, rows: Rows, *others: Strides) -> tuple[object, ...]:
        """Return the constants that kernels take from EDGES to EDGE_LAYOUT. others: strides of tensors of x's shape."""
        edges = 0 if self.across else edge_vector_size(rows, *others)
        far = self.cols * max(rows.x_n, rows.out_n, *(other.n for other in others)) >= 2**31  # offsets within a row
        return edges, self.across, far, self.rows, self.cols, self.layout, self.edge_layout


def make_row_tile(rows: Rows, tile_rows: int, cols: int, warps: int, *others: Strides) -> Tile:
    """Return a tile of ``tile_rows`` rows. Each thread has complete vectors of one row."""
    edges, vector = edge_vector_size(rows, *others), min(choose_vector_width(rows, *others), cols)
    lanes = min(LANES, cols // vector)
    spread = [1, warps] if tile_rows == 1 else [warps, 1]
    layout = gl.BlockedLayout([1, vector], [LANES // lanes, lanes], spread, [1, 0])
    edge = gl.BlockedLayout([1, max(1, 2 * edges // lanes)], [LANES // lanes, lanes], spread, [1, 0])
    return Tile(tile_rows, cols, warps, False, vector, layout, edge)


def make_column_tile(rows: Rows, columns: Columns, width: int, depth: int, warps: int, *others: Strides) -> Tile:
    """Return a tile of ``width`` adjacent columns. Each thread has complete vectors of elements of adjacent columns."""
    beside, vector = [to_column_strides(rows, other) for other in others], 1
    if columns.x_inner == 1 and not columns.x_phase and not any(o.n and (o.phase or o.inner != 1) for o in beside):
        strides = [stride for other in beside if other.n for stride in (other.outer, other.n) if stride]
        vector = min(columns.stride_gcd, width, *(stride & -stride for stride in strides))
    lanes = min(LANES, width // vector)
    layout = gl.BlockedLayout([vector, 1], [lanes, LANES // lanes], [1, warps], [0, 1])
    return Tile(width, depth, warps, True, vector, layout, layout)


def choose_vector_width(rows: Rows, *others: Strides) -> int:
    """Return the number of elements per vector: the most, up to 16 bytes, that are aligned in every tensor's rows."""
    if edge_vector_size(rows, *others):
        return rows.vector_elements
    if rows.x_n != 1 or rows.x_phase or (rows.out_n and (rows.out_n != 1 or rows.out_phase)):
        return 1
    if any(other.n and (other.n != 1 or other.phase) for other in others):
        return 1
    return min(rows.vector_elements, rows.offset_gcd(*others))


def layout_arguments(rows: Rows, tile: Tile, *others: Strides) -> tuple[int, ...]:
    """Return a kernel's sizes and strides: by ``column_arguments`` if tile.across, else by ``row_arguments``. others:
    the (outer, n, inner) strides of further tensors, which come last."""
    if tile.across and rows.as_columns is not None:
        return column_arguments(rows.as_columns, *(to_column_strides(rows, other) for other in others))
    return row_arguments(rows, *others)


def row_strides(rows: Rows, tile: Tile, *others: Strides) -> tuple[int, ...]:
    """Return the outer and inner strides of tensors with one element per row, as one flat tuple."""
    strides = (to_column_strides(rows, other) if tile.across else other for other in others)
    return tuple(stride for other in strides for stride in (other.outer, other.inner))


def max_length_in_vectors(rows: Rows, *others: Strides) -> int:
    """Return the most elements that a row can have in complete vectors, or n if rows have no edges."""
    edges = edge_vector_size(rows, *others)
    return max(1, rows.n // edges * edges if edges else rows.n)


def lowest_finite(dtype: torch.dtype) -> float:
    """Return the lowest finite number. Running maxima start from it, so that no difference is -inf - -inf."""
    return float(torch.finfo(dtype).min)


# --- Tiles of whole rows, which a program keeps on chip --------------------------------------------------------------


@form_knobs
class Knobs(held_rows.HeldRowKnobs):
    """Knobs for rows that programs keep on chip."""


def whole_row_tile(id: str, device: Device, rows: Rows, inputs: int, *others: Strides) -> Tile:
    """Return a tile that fits on chip: several short rows for one warp, one row, or a strip of columns. A strip is one
    memory line wide if that fits. inputs: how many tensors are kept. Raises UnsupportedProblemError if nothing fits."""
    check_fits(id, rows, inputs)
    if rows.as_columns is not None:
        depth, width = next_power_of_two(rows.n), strip_width(rows.as_columns, inputs)
        warps = max(1, min(8, width * depth * inputs * rows.accumulator_bytes // (128 * LANES)))
        return make_column_tile(rows, rows.as_columns, width, depth, warps, *others)
    knobs, cols = of(Knobs, device.index), next_power_of_two(max_length_in_vectors(rows, *others))
    many = knobs.warp_bytes // rows.accumulator_bytes // inputs // cols
    if many > 1:
        even = next_power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return make_row_tile(rows, min(many, even), cols, 1, *others)
    threads = min(1024, row_threads(knobs, rows, rows.n) * inputs)
    return make_row_tile(rows, 1, cols, device.warps(threads), *others)


def register_options(device: Device, tile: Tile) -> dict[str, Any]:
    """Return the compiler's register limit for a kernel that keeps its tile in registers.

    Without the limit, the assembler would spill a few registers to fit one more program per SM. That happens for
    columns, and on GPUs other than an H200.
    """
    few = device.arch in ("", "sm_90") and not tile.across
    return {} if few or not device.arch else {"maxnreg": min(255, device.registers // (tile.warps * LANES))}


# --- Blocks and parts of longer rows ---------------------------------------------------------------------------------

BLOCK_BYTES = 16384
"""Bytes per block of a running state. Each of 256 threads has 16 float32 elements, with a maximum and a sum each."""

LEAST_PART = 4096
"""The fewest elements per program, over all rows of its tile."""

MOST_PARTS = 256
"""The most programs per tile. Each program, or the last to finish, reads the results of all."""


def make_block_tile(rows: Rows, bytes: int, *others: Strides) -> Tile:
    """Return a tile for kernels that loop over rows in blocks. It is part of one row, or of one memory line of columns.
    bytes: the size of the tile in the dtype of the computation."""
    elements, columns = bytes // rows.accumulator_bytes, rows.as_columns
    if columns is not None:
        width = line_width(columns)
        depth = max(1, min(next_power_of_two(rows.n), elements // width))
        return make_column_tile(rows, columns, width, depth, _count_warps(rows, width * depth), *others)
    cols = min(elements, next_power_of_two(max_length_in_vectors(rows, *others)))
    return make_row_tile(rows, 1, cols, _count_warps(rows, cols), *others)


def _count_warps(rows: Rows, elements: int) -> int:
    """Return the number of warps, at most 8: a thread takes 64 bytes in the dtype of the computation."""
    return max(1, min(8, elements * rows.accumulator_bytes // (64 * LANES)))


class RowParts(NamedTuple):
    """How programs share rows. parts: programs per tile. span: units of each row per program. unit: elements per unit.
    merged: parts, rounded up to a power of two."""

    parts: int
    span: int
    unit: int
    merged: int


def plan_parts(rows: Rows, tile: Tile, device: Device, *others: Strides) -> RowParts:
    """Return a split of rows that fills the device. A row has at least two parts if it has two units."""
    unit = 1 if tile.across else choose_vector_width(rows, *others)
    elements = rows.n if tile.across else max_length_in_vectors(rows, *others)
    wanted = cdiv(CROWD * device.multiprocessors, tile.count_tiles(rows.with_planned_rows))
    most = min(MOST_PARTS, tile.rows * elements // LEAST_PART, max(2, tile.cols))
    parts = max(2, min(wanted, most))
    span = cdiv(elements, parts * unit)
    parts = cdiv(elements, span * unit)
    return RowParts(parts, span, unit, next_power_of_two(parts))


def online_or_split(device: Device, rows: Rows, *others: Strides) -> str:
    """Choose a gradient's form for rows that don't fit on chip: online for many rows, else split_two_launches."""
    tiles = make_block_tile(rows, ON_CHIP_BYTES, *others).count_tiles(rows.with_planned_rows)
    return "online" if tiles >= CROWD * device.multiprocessors else "split_two_launches"
