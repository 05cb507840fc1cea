"""The tile sizes of all kernels: how many rows, and how many elements of each row, a program processes at a time.

Sizes are powers of two. The compiler assigns a tile's elements to threads, and chooses vector widths."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelzoo.device import Device, is_batch_invariant
from kernelzoo.kernels.cutile.launch import View
from kernelzoo.kernels.shared.cut import BlockSplit, plan_split, split_blocks
from kernelzoo.kernels.shared.held_rows import check_fits, line_width, longest_row, strip_width
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, count_row_parts
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv, next_power_of_two
from kernelzoo.tables import form_knobs, knob, of

ROW_BYTES = 65536
"""The most bytes of a row, in the accumulator dtype, that a program keeps in registers with its weights: 64 float32
elements per thread. It is half as much for rows without vectors, because their reads need more registers."""

FIT = 4
"""How many programs of long rows must fit on an SM. A thread then has 64 registers, which are enough."""


class Tile(NamedTuple):
    """A tile's shape, the axis of a row's elements, and the number of warps per program."""

    shape: tuple[int, int, int]
    axis: int
    warps: int

    @property
    def block_length(self) -> int:
        """The number of elements of each row in a tile."""
        return self.shape[self.axis]

    def count_tiles(self, rows: Rows) -> int:
        """Return the number of tiles that cover all rows."""
        found = (rows.as_columns if self.axis == 1 else None) or rows
        return cdiv(found.outer, self.shape[0]) * cdiv(found.inner, self.shape[3 - self.axis])

    def programs_per_sm(self, rows: Rows, usual: int, unaligned_in_vectors: bool = False) -> int | None:
        """Return how many programs of a kernel must fit on an SM: ``usual``, or one fewer in float64, whose
        exponential needs more registers. Return None if rows are not read in vectors, so that the compiler chooses.
        unaligned_in_vectors: whether unaligned rows are nevertheless read in vectors."""
        return usual - (rows.itemsize == 8) if (unaligned_in_vectors or fits_vectors(rows)) and self.axis == 2 else None

    def elements_per_lane(self, rows: Rows) -> int:
        """Return how many neighbouring elements a lane combines: a vector, or the tile's width if that is less."""
        return min(VECTOR_BYTES // rows.itemsize, self.shape[2])


def fits_vectors(rows: Rows) -> bool:
    """Whether all rows can be read and written in 16-byte vectors."""
    return rows.offset_gcd() * rows.itemsize >= VECTOR_BYTES


def _count_warps(bytes: int) -> int:
    """Return the number of warps for a tile of ``bytes`` bytes: 4 if 32 registers per thread suffice, else 8."""
    return 4 if bytes <= 32 * 4 * 128 else 8


def contiguous_tile(rows: Rows, count: int, cols: int, inputs: int = 1) -> Tile:
    """Return a tile of ``count`` contiguous rows, of one group or of whole groups. inputs: see ``whole_row_tile``."""
    strip = min(count, next_power_of_two(rows.with_planned_rows.inner))
    groups = min(count // strip, next_power_of_two(rows.with_planned_rows.outer))
    return Tile((groups, strip, cols), 2, _count_warps(groups * strip * cols * rows.accumulator_bytes * inputs))


def strided_tile(rows: Rows, width: int, depth: int, inputs: int = 1) -> Tile:
    return Tile((1, depth, width), 1, _count_warps(width * depth * rows.accumulator_bytes * inputs))


# --- Tiles of whole rows, which a program keeps in registers ---------------------------------------------------------


@form_knobs
class Knobs:
    tile_bytes: int = knob(
        8192, among=(4096, 8192, 16384), unit="bytes", why="of short rows as computed, which a program holds"
    )
    tiles_per_sm: int = knob(
        16, among=(4, 8, 16, 32), unit="tiles", why="such tiles are made no larger than leaves each SM so many"
    )
    ragged: int = knob(
        256, among=(128, 256, 512), unit="elements",
        why="of a row in half precision that begins anywhere, from which on a program has one, and reads vectors",
    )  # fmt: skip
    half: int = knob(
        1024, among=(512, 1024), unit="elements", why="of any other row in half precision, from which on it does"
    )
    wide: int = knob(384, among=(384, 512, 1024), unit="elements", why="of a row in float32, from which on it does")


def whole_row_tile(id: str, device: Device, rows: Rows, inputs: int, one_row: bool = False) -> Tile:
    """Return a tile of complete rows that a program keeps in registers. It has one row, several short rows, or a strip
    of columns, a cache line wide if that fits. one_row: whether each short row has its own program. inputs: how many
    tensors of n elements per row stay in registers. Raises UnsupportedProblemError if none fits."""
    check_fits(id, rows, inputs)
    cols, columns = next_power_of_two(rows.n), rows.as_columns
    if columns is not None:
        return strided_tile(rows, strip_width(columns, inputs), cols, inputs)
    knobs = of(Knobs, device.index)
    many = _count_short_rows(knobs, rows)
    if many > 1 and not one_row:
        even = next_power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return contiguous_tile(rows, min(many, max(2, even)), cols, inputs)
    return Tile((1, 1, cols), 2, _count_warps(cols * rows.accumulator_bytes * inputs))


def _count_short_rows(knobs: Knobs, rows: Rows) -> int:
    """Return how many rows fit in a tile of ``knobs.tile_bytes``."""
    return knobs.tile_bytes // rows.accumulator_bytes // next_power_of_two(rows.n)


def prefers_one_row_per_program(device: Device, rows: Rows, x: torch.Tensor) -> bool:
    """Whether one row per program is faster than several. Several unaligned rows can't be read in vectors. For several
    long rows, the compiler may assign elements to threads in a slow way."""
    knobs = of(Knobs, device.index)
    if _count_short_rows(knobs, rows) < 2:
        return True
    if rows.itemsize > 2:
        return rows.n >= knobs.wide
    return rows.n >= (knobs.ragged if has_unaligned_rows(rows, x) else knobs.half)


# --- Blocks and parts of longer rows ---------------------------------------------------------------------------------

BLOCK_BYTES = 16384
"""Bytes of a block with running states: 16 float32 elements, maxima and sums for each of 256 threads."""

READ_BYTES = 32768
"""Bytes of a block that is reduced to one number per vector: 32 float32 elements for each of 256 threads."""


def loop_tile(rows: Rows, bytes: int, inputs: int = 1) -> Tile:
    """Return the tile of a kernel that loops over blocks of rows: a part of one row, or of a cache line of columns.
    bytes: the tile's size in the accumulator dtype. inputs: how many such tiles are in registers at a time."""
    room, columns = bytes // rows.accumulator_bytes, rows.as_columns
    if columns is None:
        return contiguous_tile(rows, 1, min(room, next_power_of_two(rows.n)), inputs)
    width = min(line_width(columns), room)
    return strided_tile(rows, width, min(next_power_of_two(rows.n), room // width), inputs)


def short_rows_or_loop_tile(rows: Rows, device: Device, inputs: int = 1, bytes: int = BLOCK_BYTES) -> Tile:
    """Return a tile of several short rows, but few enough that each SM has several tiles. For longer rows, return
    ``loop_tile`` with ``bytes / inputs``. inputs: how many such tiles are in registers at a time."""
    cols, spread = next_power_of_two(rows.n), next_power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    many = min(BLOCK_BYTES // 2 // rows.accumulator_bytes // next_power_of_two(inputs) // cols, spread)
    if rows.is_strided or many < 2:
        return loop_tile(rows, bytes // next_power_of_two(inputs), inputs)
    return contiguous_tile(rows, many, cols, inputs)


def whole_row_or_block_plan(
    id: str, device: Device, rows: Rows, inputs: int, weights_last: bool = True
) -> tuple[bool, Tile, int | None]:
    """Return (held, tile, occupancy). held: whether complete rows fit in registers with their weights. If not, the tile
    is a block of a row. inputs: see ``whole_row_tile``. weights_last: load weights after the reduction, so
    that during it they need no registers. That suits many rows. With few, loading them first hides their latency."""
    if rows.n > min(longest_row(rows, inputs), ROW_BYTES // (1 if fits_vectors(rows) else 2) // rows.accumulator_bytes):
        tile = loop_tile(rows, BLOCK_BYTES, inputs)
        return False, tile, tile.programs_per_sm(rows, FIT // 2)  # weights take registers too
    tile = whole_row_tile(id, device, rows, 1 if weights_last and rows.as_columns is None else inputs)
    return True, tile, tile.programs_per_sm(rows, 640 // (32 * tile.warps))  # with 102 or 128 registers per thread


def weight_grad_tile(rows: Rows) -> Tile:
    """Return a tile of many rows, with a cache line of elements of each, for sums over all rows."""
    room, columns = BLOCK_BYTES // 4 // rows.accumulator_bytes, rows.as_columns
    cols = min(LINE_BYTES // rows.accumulator_bytes, next_power_of_two(rows.n))
    if columns is None:
        return contiguous_tile(rows, min(room // cols, next_power_of_two(rows.total)), cols)
    return strided_tile(rows, min(room // cols, next_power_of_two(columns.inner)), cols)


def plan_parts(rows: Rows, tile: Tile, device: Device) -> BlockSplit:
    """Return how the rows of each tile are split among several programs."""
    lanes = tile.shape[0] * tile.shape[3 - tile.axis]
    return plan_split(cdiv(rows.n, tile.block_length), tile.count_tiles(rows.with_planned_rows), lanes * rows.n, device)


def part_tiles(rows: Rows, device: Device) -> tuple[Tile, BlockSplit, Tile]:
    """Return (tile of a part of a row, how rows are cut into parts, tile of all partial results of a row)."""
    tile = loop_tile(rows, BLOCK_BYTES // 2)
    blocks = max(1, cdiv(rows.n, tile.block_length))
    plan = split_blocks(min(count_row_parts(rows, device), blocks), blocks)
    if tile.axis == 2:
        return tile, plan, contiguous_tile(rows, 1, plan.padded_parts)
    return tile, plan, strided_tile(rows, min(tile.shape[2], max(1, 4096 // plan.padded_parts)), plan.padded_parts)


# --- Rows that begin anywhere in a vector ----------------------------------------------------------------------------


def has_unaligned_rows(rows: Rows, x: torch.Tensor) -> bool:
    """Whether rows without gaps are unaligned: the first row begins with a vector, but other rows may not."""
    return rows.ends_inside_vector and not flat_view(x).needs_int64


def fit_tile_to_whole_vectors(rows: Rows, tile: Tile, x: torch.Tensor, *middle: torch.Tensor) -> tuple[int, Tile]:
    """Return (elements per vector, tile of an unaligned row's whole vectors). Return (0, tile) if rows are aligned, if
    a tensor of ``middle`` is not contiguous and aligned, or if the tile has several rows."""
    beside = all(one.is_contiguous() and one.data_ptr() % VECTOR_BYTES == 0 for one in middle)
    if tile.shape[:2] != (1, 1) or not has_unaligned_rows(rows, x) or not beside:
        return 0, tile
    pack = VECTOR_BYTES // rows.itemsize
    return pack, tile._replace(shape=(1, 1, min(tile.block_length, next_power_of_two(rows.n // pack) * pack)))


def flat_view(tensor: torch.Tensor) -> View:
    """Return a contiguous tensor as one long last axis. In a batch-invariant call its size is rounded up to whole
    vectors, so that the kernel is the same for all numbers of rows. No program uses elements past the end."""
    vector = VECTOR_BYTES // tensor.element_size() if is_batch_invariant() else 1
    return View(tensor, (1, 1, cdiv(tensor.numel(), vector) * vector), (0, 0, 1))


# --- Tensors as arrays ----------------------------------------------------------------------------------------------


def make_view(rows: Rows, tile: Tile, tensor: torch.Tensor, strides: Strides) -> View:
    """Return a view with the axes of a tile. If the tensor has one element per row, there is no axis of elements."""
    columns = rows.as_columns if tile.axis == 1 else None
    found = columns or rows
    apart = strides.outer, strides.inner
    if columns is not None and rows.inner == 1:
        apart = 0, strides.outer
    if tensor.ndim == 2:
        return View(tensor, (found.outer, found.inner), apart)
    if columns is None:
        return View(tensor, (rows.outer, rows.inner, rows.n), (*apart, strides.n))
    return View(tensor, (columns.outer, rows.n, columns.inner), (apart[0], strides.n, apart[1]))


def make_views(
    rows: Rows, tile: Tile, tensors: Sequence[torch.Tensor], middle: Sequence[Strides] = (), vector_size: int = 0
) -> list[View]:
    """Return a view of each tensor. If vector_size is not 0, unaligned rows are read by vectors of that many elements
    of a ``flat_view``. middle: the strides of the tensors between the first and the output."""
    x = Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)
    strides = (x, *middle, Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase))
    found = zip(tensors, strides, strict=True)
    return [
        flat_view(tensor) if vector_size and tensor.ndim == 3 else make_view(rows, tile, tensor, one)
        for tensor, one in found
    ]


def weight_view(tile: Tile, weight: torch.Tensor) -> View:
    """Return a view of a tensor of n elements, such as a weight, with the axes of a tile."""
    n, stride = weight.shape[0], weight.stride(0)
    return View(weight, (1, 1, n), (0, 0, stride)) if tile.axis == 2 else View(weight, (1, n, 1), (0, stride, 0))


def row_workspace(rows: Rows, tile: Tile, x: torch.Tensor) -> View:
    """Return a workspace for one number per row, in the accumulator dtype."""
    found = (rows.as_columns if tile.axis == 1 else None) or rows
    room = x.new_empty((found.outer, found.inner), dtype=acc_dtype(x.dtype))
    return View(room, tuple(room.shape), room.stride())


def float64_bits(number: float) -> int:
    """Return the bits of a float64 number as an integer constant, because cuTile would round a float to float32."""
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)


def part_workspace(rows: Rows, tile: Tile, plan: BlockSplit, x: torch.Tensor, dtype: torch.dtype) -> View:
    """Return a workspace for partial results: an array of rows, with one element per part of a row."""
    found = (rows.as_columns if tile.axis == 1 else None) or rows
    sizes = (found.outer, plan.parts, found.inner) if tile.axis == 1 else (found.outer, found.inner, plan.parts)
    room = x.new_empty(sizes, dtype=dtype)
    return View(room, sizes, room.stride())


def acc_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the accumulator dtype: float32 for half precision, 64-bit integers for integers."""
    if dtype.is_floating_point:
        return torch.float64 if dtype == torch.float64 else torch.float32
    return torch.int64
