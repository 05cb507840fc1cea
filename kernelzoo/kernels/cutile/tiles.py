"""Tiles, chosen here for every kernel: how many rows, and how many elements of each, a program takes at a time.

The compiler chooses which thread has which elements of a tile, and vector widths. Sizes are powers of two.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelzoo.device import Device, is_batch_invariant
from kernelzoo.kernels.cutile.launch import View
from kernelzoo.kernels.shared.cut import Cut, cut, into
from kernelzoo.kernels.shared.held_rows import check_fits, line_of, longest, strip_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, parts_of
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv, power_of_two
from kernelzoo.tables import knob, numbers, of

ROW_BYTES = 65536
"""Bytes, in the accumulator dtype, of the longest row that a program keeps beside its weights: 64 float32 elements per
thread. It is half as much for rows that are read without vectors, which takes more registers."""

FIT = 4
"""Programs of long rows that must fit on an SM: the 64 registers that this leaves a thread are enough."""


class Tile(NamedTuple):
    """A tile's size along three axes, the axis of the elements, and a program's warps."""

    shape: tuple[int, int, int]
    axis: int
    warps: int

    @property
    def block(self) -> int:
        """The number of elements of each row."""
        return self.shape[self.axis]

    def count(self, rows: Rows) -> int:
        """Return the number of tiles that cover all rows."""
        found = (rows.columns if self.axis == 1 else None) or rows
        return cdiv(found.outer, self.shape[0]) * cdiv(found.inner, self.shape[3 - self.axis])

    def occupancy(self, rows: Rows, many: int, ragged: bool = False) -> int | None:
        """Return how many programs that loop over blocks must fit on an SM; None leaves the choice to the compiler. It
        is one less than ``many`` in float64, whose exponential takes more registers. It is None if lanes have no
        vectors. ragged: lanes have them, though rows begin anywhere in a vector."""
        return many - (rows.itemsize == 8) if (ragged or has_vectors(rows)) and self.axis == 2 else None

    def fold(self, rows: Rows) -> int:
        """Return how many neighbours a lane makes one value of: a vector, or less if a row has less in a tile."""
        return min(VECTOR_BYTES // rows.itemsize, self.shape[2])


def has_vectors(rows: Rows) -> bool:
    """Whether rows can be read and written by vectors."""
    return rows.common() * rows.itemsize >= VECTOR_BYTES


def _warps(bytes: int) -> int:
    """Return the warps for that many bytes: 4 if a thread then has at most 32 registers of them, else 8."""
    return 4 if bytes <= 32 * 4 * 128 else 8


def along(rows: Rows, many: int, cols: int, inputs: int = 1) -> Tile:
    """Return a tile of that many contiguous rows, of one group or whole ones. inputs: see ``whole_row_tile``."""
    strip = min(many, power_of_two(rows.as_planned.inner))
    groups = min(many // strip, power_of_two(rows.as_planned.outer))
    return Tile((groups, strip, cols), 2, _warps(groups * strip * cols * rows.wide_bytes * inputs))


def across(rows: Rows, width: int, depth: int, inputs: int = 1) -> Tile:
    return Tile((1, depth, width), 1, _warps(width * depth * rows.wide_bytes * inputs))


# --- Tiles of whole rows, which a program keeps in registers ---------------------------------------------------------


@numbers
class Numbers:
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
    """Return the tile of whole rows that a program keeps in registers: one row, several short ones, or a strip of
    columns, a cache line wide if that fits. one_row: whether short rows have a program each. inputs: how many tensors
    of n elements per row are kept. Raises UnsupportedProblemError if none fits."""
    check_fits(id, rows, inputs)
    cols, columns = power_of_two(rows.n), rows.columns
    if columns is not None:
        return across(rows, strip_of(columns, inputs), cols, inputs)
    knobs = of(Numbers, device.index)
    many = _short_rows(knobs, rows)
    if many > 1 and not one_row:
        even = power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return along(rows, min(many, max(2, even)), cols, inputs)
    return Tile((1, 1, cols), 2, _warps(cols * rows.wide_bytes * inputs))


def _short_rows(knobs: Numbers, rows: Rows) -> int:
    """Return how many rows fit in a tile."""
    return knobs.tile_bytes // rows.wide_bytes // power_of_two(rows.n)


def takes_one_row(device: Device, rows: Rows, x: torch.Tensor) -> bool:
    """Whether a program is better given one row than several. Several rows that begin anywhere in a vector are read by
    single elements. The compiler chooses how a tile of long rows is spread over threads."""
    knobs = of(Numbers, device.index)
    if _short_rows(knobs, rows) < 2:
        return True
    if rows.itemsize > 2:
        return rows.n >= knobs.wide
    return rows.n >= (knobs.ragged if is_ragged(rows, x) else knobs.half)


# --- Blocks and parts of longer rows ---------------------------------------------------------------------------------

BLOCK_BYTES = 16384
"""Bytes of a block of running states: 16 float32 elements, maxima and sums for each of 256 threads."""

READ_BYTES = 32768
"""Bytes of a block that leaves one number per vector: 32 float32 elements for each of 256 threads."""


def block(rows: Rows, bytes: int, inputs: int = 1) -> Tile:
    """Return a tile of that many bytes in the accumulator dtype, for kernels that loop over blocks of rows. It is a
    part of one row, or of a cache line of columns. inputs: how many such tiles are kept at a time."""
    room, columns = bytes // rows.wide_bytes, rows.columns
    if columns is None:
        return along(rows, 1, min(room, power_of_two(rows.n)), inputs)
    width = min(line_of(columns), room)
    return across(rows, width, min(power_of_two(rows.n), room // width), inputs)


def streaming_tile(rows: Rows, device: Device, inputs: int = 1, bytes: int = BLOCK_BYTES) -> Tile:
    """Return a tile of several short rows, as long as each SM has several tiles. If rows are longer, return a block of
    them, of that many bytes in the accumulator dtype. inputs: how many such tiles are kept at a time."""
    cols, spread = power_of_two(rows.n), power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    many = min(BLOCK_BYTES // 2 // rows.wide_bytes // power_of_two(inputs) // cols, spread)
    if rows.across or many < 2:
        return block(rows, bytes // power_of_two(inputs), inputs)
    return along(rows, many, cols, inputs)


def whole_row_or_block(id: str, device: Device, rows: Rows, inputs: int) -> tuple[bool, Tile, int | None]:
    """Return (held, tile, occupancy). held: whether a program keeps whole rows beside their weights. If not, the tile
    is a block of a longer row. inputs: see ``whole_row_tile``."""
    if rows.n > min(longest(rows, inputs), ROW_BYTES // (1 if has_vectors(rows) else 2) // rows.wide_bytes):
        tile = block(rows, BLOCK_BYTES, inputs)
        return False, tile, tile.occupancy(rows, FIT // 2)  # weights take registers too
    tile = whole_row_tile(id, device, rows, inputs if rows.columns else 1)  # contiguous weights are read where used
    return True, tile, tile.occupancy(rows, 640 // (32 * tile.warps))  # with 102 or 128 registers per thread


def weight_grad_tile(rows: Rows) -> Tile:
    """Return a tile with a cache line of elements of each of many rows, for sums over all rows."""
    room, columns = BLOCK_BYTES // 4 // rows.wide_bytes, rows.columns
    cols = min(LINE_BYTES // rows.wide_bytes, power_of_two(rows.n))
    if columns is None:
        return along(rows, min(room // cols, power_of_two(rows.total)), cols)
    return across(rows, min(room // cols, power_of_two(columns.inner)), cols)


def plan_parts(rows: Rows, tile: Tile, device: Device) -> Cut:
    """Return how several programs share the rows of each tile."""
    lanes = tile.shape[0] * tile.shape[3 - tile.axis]
    return cut(cdiv(rows.n, tile.block), tile.count(rows.as_planned), lanes * rows.n, device)


def part_tiles(rows: Rows, device: Device) -> tuple[Tile, Cut, Tile]:
    """Return (the tile of a part of a row, how rows are cut into parts, the tile of all that a row's parts store)."""
    tile = block(rows, BLOCK_BYTES // 2)
    blocks = max(1, cdiv(rows.n, tile.block))
    plan = into(min(parts_of(rows, device), blocks), blocks)
    if tile.axis == 2:
        return tile, plan, along(rows, 1, plan.merged)
    return tile, plan, across(rows, min(tile.shape[2], max(1, 4096 // plan.merged)), plan.merged)


# --- Rows that begin anywhere in a vector ----------------------------------------------------------------------------


def is_ragged(rows: Rows, x: torch.Tensor) -> bool:
    """Whether rows without gaps begin anywhere in a vector, though the first begins with one."""
    return rows.ragged and not flat_view(x).far


def ragged(rows: Rows, tile: Tile, x: torch.Tensor, *others: torch.Tensor) -> tuple[int, Tile]:
    """Return (elements of a vector, tile of the whole vectors inside a ragged row). It is (0, tile) if rows of x or of
    others are not ragged, or if the tile has several."""
    beside = all(one.is_contiguous() and one.data_ptr() % VECTOR_BYTES == 0 for one in others)
    if tile.shape[:2] != (1, 1) or not is_ragged(rows, x) or not beside:
        return 0, tile
    pack = VECTOR_BYTES // rows.itemsize
    return pack, tile._replace(shape=(1, 1, min(tile.block, power_of_two(rows.n // pack) * pack)))


def flat_view(tensor: torch.Tensor) -> View:
    """Return a view of a tensor that is one piece of memory, along the last axis. In a batch-invariant call its last
    vector is whole, as among other numbers of rows, though no program uses what is past its end."""
    vector = VECTOR_BYTES // tensor.element_size() if is_batch_invariant() else 1
    return View(tensor, (1, 1, cdiv(tensor.numel(), vector) * vector), (0, 0, 1))


# --- Tensors as arrays ----------------------------------------------------------------------------------------------


def make_view(rows: Rows, tile: Tile, tensor: torch.Tensor, strides: Strides) -> View:
    """Return a tensor's view with the axes of a tile's array, but no axis of elements if it has one per row."""
    columns = rows.columns if tile.axis == 1 else None
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
    rows: Rows, tile: Tile, tensors: Sequence[torch.Tensor], others: Sequence[Strides] = (), pack: int = 0
) -> list[View]:
    """Return views of all of a problem's tensors: those of ``flat_view`` if rows are ragged, and pack is not 0. others:
    the strides of the tensors between the first and the output."""
    x = Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)
    strides = (x, *others, Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase))
    found = zip(tensors, strides, strict=True)
    return [
        flat_view(tensor) if pack and tensor.ndim == 3 else make_view(rows, tile, tensor, one) for tensor, one in found
    ]


def weight_view(tile: Tile, weight: torch.Tensor) -> View:
    """Return a view of a per-element tensor, such as a weight, with the axes of a tile."""
    n, stride = weight.shape[0], weight.stride(0)
    return View(weight, (1, 1, n), (0, 0, stride)) if tile.axis == 2 else View(weight, (1, n, 1), (0, stride, 0))


def row_workspace(rows: Rows, tile: Tile, x: torch.Tensor) -> View:
    """Return a workspace for one number per row, in the accumulator dtype."""
    found = (rows.columns if tile.axis == 1 else None) or rows
    room = x.new_empty((found.outer, found.inner), dtype=acc_dtype(x.dtype))
    return View(room, tuple(room.shape), room.stride())


def float64_bits(number: float) -> int:
    """Return the bits of a float64 number as an integer, a constant that a kernel takes without rounding."""
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)


def workspace(rows: Rows, tile: Tile, plan: Cut, x: torch.Tensor, dtype: torch.dtype) -> View:
    """Return a workspace for what programs store of parts of rows: an array of rows with one element per part."""
    found = (rows.columns if tile.axis == 1 else None) or rows
    sizes = (found.outer, plan.parts, found.inner) if tile.axis == 1 else (found.outer, found.inner, plan.parts)
    room = x.new_empty(sizes, dtype=dtype)
    return View(room, sizes, room.stride())


def acc_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the accumulator dtype: float32 for half precision, 64-bit integers for integers."""
    if dtype.is_floating_point:
        return torch.float64 if dtype == torch.float64 else torch.float32
    return torch.int64
