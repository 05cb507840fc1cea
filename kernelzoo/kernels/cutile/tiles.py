"""Tiles: how many rows, and elements of each, a program has at a time. Chosen here, for every kernel.

Which thread holds what of a tile is the compiler's choice, as are vectors; sizes are powers of two.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelzoo.device import Device, is_batch_invariant
from kernelzoo.kernels.cutile.launch import View
from kernelzoo.kernels.shared.cut import Cut, cut, into
from kernelzoo.kernels.shared.held_rows import check_held, line_of, longest, strip_of
from kernelzoo.kernels.shared.long_rows import LINE_BYTES, parts_of
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv, power_of_two
from kernelzoo.tables import knob, numbers, of

ROW_BYTES = 65536
"""As computed, of the longest row that a program holds beside its weights: 64 float32 elements to a thread. Half as
much where it is read by elements, which take more registers."""

FIT = 4
"""Programs of long rows on a multiprocessor: the 64 registers that this leaves a thread are enough."""


class Tile(NamedTuple):
    """A tile: its size along three axes, the axis of the elements, and warps of a program."""

    shape: tuple[int, int, int]
    axis: int
    warps: int

    @property
    def block(self) -> int:
        """Elements of each row."""
        return self.shape[self.axis]

    def count(self, rows: Rows) -> int:
        """Tiles side by side that it takes to cover all rows."""
        found = (rows.columns if self.axis == 1 else None) or rows
        return cdiv(found.outer, self.shape[0]) * cdiv(found.inner, self.shape[3 - self.axis])

    def occupancy(self, rows: Rows, many: int, ragged: bool = False) -> int | None:
        """Programs that loop over blocks, as many as must fit on a multiprocessor; None is the compiler's choice. One
        less in float64, whose exponential takes more registers; None where lanes have no vectors. ragged: they have,
        though rows begin anywhere."""
        return many - (rows.itemsize == 8) if (ragged or has_vectors(rows)) and self.axis == 2 else None

    def fold(self, rows: Rows) -> int:
        """Elements of a vector, as far as a row has them in a tile, of which a lane makes one."""
        return min(VECTOR_BYTES // rows.itemsize, self.shape[2])


def has_vectors(rows: Rows) -> bool:
    """Whether rows can be read and written by vectors."""
    return rows.common() * rows.itemsize >= VECTOR_BYTES


def _warps(bytes: int) -> int:
    """Those of which each thread has 32 registers for so many bytes, as far as the compiler takes other numbers."""
    return 4 if bytes <= 32 * 4 * 128 else 8


def along(rows: Rows, many: int, cols: int, inputs: int = 1) -> Tile:
    """A tile of so many rows that lie along memory, of one group or of several whole ones. inputs: how many tensors of
    n elements a row are held."""
    strip = min(many, power_of_two(rows.as_planned.inner))
    groups = min(many // strip, power_of_two(rows.as_planned.outer))
    return Tile((groups, strip, cols), 2, _warps(groups * strip * cols * rows.wide_bytes * inputs))


def across(rows: Rows, wide: int, depth: int, inputs: int = 1) -> Tile:
    return Tile((1, depth, wide), 1, _warps(wide * depth * rows.wide_bytes * inputs))


# --- Tiles of whole rows, which a program holds ----------------------------------------------------------------------


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


def held(id: str, device: Device, rows: Rows, inputs: int, alone: bool = False) -> Tile:
    """Short rows side by side, unless alone; one row; or a strip of columns, a line wide if it fits. inputs: how many
    tensors of n elements a row are held. Raises UnsupportedProblemError if none fits."""
    check_held(id, rows, inputs)
    cols, columns = power_of_two(rows.n), rows.columns
    if columns is not None:
        return across(rows, strip_of(columns, inputs), cols, inputs)
    knobs = of(Numbers, device.index)
    many = _short_rows(knobs, rows)
    if many > 1 and not alone:
        even = power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return along(rows, min(many, max(2, even)), cols, inputs)
    return Tile((1, 1, cols), 2, _warps(cols * rows.wide_bytes * inputs))


def _short_rows(knobs: Numbers, rows: Rows) -> int:
    """How many rows a tile has room for."""
    return knobs.tile_bytes // rows.wide_bytes // power_of_two(rows.n)


def is_alone(device: Device, rows: Rows, x: torch.Tensor) -> bool:
    """Whether a program is better given one row than several. Of several that begin anywhere it reads elements alone,
    and how a tile of long ones lies on threads is the compiler's choice."""
    knobs = of(Numbers, device.index)
    if _short_rows(knobs, rows) < 2:
        return True
    if rows.itemsize > 2:
        return rows.n >= knobs.wide
    return rows.n >= (knobs.ragged if is_ragged(rows, x) else knobs.half)


# --- Blocks and parts of longer rows ---------------------------------------------------------------------------------

BLOCK_BYTES = 16384
"""Of a block of a running state: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""

READ_BYTES = 32768
"""Of a block that leaves one number of each vector: 32 float32 elements to each of 256 threads."""


def block(rows: Rows, bytes: int, inputs: int = 1) -> Tile:
    """A tile of so many bytes as computed, for kernels that go through rows in blocks. It is a part of one row, or of
    each of a line's worth of columns. inputs: how many such tiles are held at a time."""
    room, columns = bytes // rows.wide_bytes, rows.columns
    if columns is None:
        return along(rows, 1, min(room, power_of_two(rows.n)), inputs)
    wide = min(line_of(columns), room)
    return across(rows, wide, min(power_of_two(rows.n), room // wide), inputs)


def plain(rows: Rows, device: Device, inputs: int = 1, bytes: int = BLOCK_BYTES) -> Tile:
    """Several short rows side by side, as far as each multiprocessor has several tiles, or a block of longer ones, of
    so many bytes as computed. inputs: how many such tiles are held at a time."""
    cols, spread = power_of_two(rows.n), power_of_two(1 + rows.planned // (8 * device.multiprocessors))
    many = min(BLOCK_BYTES // 2 // rows.wide_bytes // power_of_two(inputs) // cols, spread)
    if rows.across or many < 2:
        return block(rows, bytes // power_of_two(inputs), inputs)
    return along(rows, many, cols, inputs)


def held_or_block(id: str, device: Device, rows: Rows, inputs: int) -> tuple[bool, Tile, int | None]:
    """(held, tile, occupancy): whether a program holds whole rows beside their weights, and the tile of these, or a
    block of a longer row. inputs: see ``held``."""
    if rows.n > min(longest(rows, inputs), ROW_BYTES // (1 if has_vectors(rows) else 2) // rows.wide_bytes):
        tile = block(rows, BLOCK_BYTES, inputs)
        return False, tile, tile.occupancy(rows, FIT // 2)  # weights take registers too
    tile = held(id, device, rows, inputs if rows.columns else 1)  # weights along memory are read where they are used
    return True, tile, tile.occupancy(rows, 640 // (32 * tile.warps))  # of 102 registers, or of 128


def over_rows(rows: Rows) -> Tile:
    """A tile of a line's worth of elements of many rows, for sums over all rows."""
    room, columns = BLOCK_BYTES // 4 // rows.wide_bytes, rows.columns
    cols = min(LINE_BYTES // rows.wide_bytes, power_of_two(rows.n))
    if columns is None:
        return along(rows, min(room // cols, power_of_two(rows.total)), cols)
    return across(rows, min(room // cols, power_of_two(columns.inner)), cols)


def cut_of(rows: Rows, tile: Tile, device: Device) -> Cut:
    """How several programs take the rows of each tile."""
    lanes = tile.shape[0] * tile.shape[3 - tile.axis]
    return cut(cdiv(rows.n, tile.block), tile.count(rows.as_planned), lanes * rows.n, device)


def in_parts(rows: Rows, device: Device) -> tuple[Tile, Cut, Tile]:
    """A program's tile of a part of rows, how these are cut, and the tile of all that parts of rows leave."""
    tile = block(rows, BLOCK_BYTES // 2)
    blocks = max(1, cdiv(rows.n, tile.block))
    plan = into(min(parts_of(rows, device), blocks), blocks)
    if tile.axis == 2:
        return tile, plan, along(rows, 1, plan.merged)
    return tile, plan, across(rows, min(tile.shape[2], max(1, 4096 // plan.merged)), plan.merged)


# --- Rows that begin anywhere in vectors -----------------------------------------------------------------------------


def is_ragged(rows: Rows, x: torch.Tensor) -> bool:
    """Whether rows follow each other without a gap, and begin anywhere in vectors though the first begins with one."""
    return rows.ragged and not flat(x).far


def ragged(rows: Rows, tile: Tile, x: torch.Tensor, *others: torch.Tensor) -> tuple[int, Tile]:
    """(pack, tile): elements of a vector, and a program's tile of the whole vectors inside such a row. 0 and the tile
    where rows are no such ones, of others too, or it has several."""
    beside = all(one.is_contiguous() and one.data_ptr() % VECTOR_BYTES == 0 for one in others)
    if tile.shape[:2] != (1, 1) or not is_ragged(rows, x) or not beside:
        return 0, tile
    pack = VECTOR_BYTES // rows.itemsize
    return pack, tile._replace(shape=(1, 1, min(tile.block, power_of_two(rows.n // pack) * pack)))


def flat(tensor: torch.Tensor) -> View:
    """A tensor that is one piece of memory, along the last axis. In a batch-invariant call its last vector is whole, as
    among other numbers of rows, though no program has what is past its end."""
    vector = VECTOR_BYTES // tensor.element_size() if is_batch_invariant() else 1
    return View(tensor, (1, 1, cdiv(tensor.numel(), vector) * vector), (0, 0, 1))


# --- Tensors as arrays ----------------------------------------------------------------------------------------------


def make_view(rows: Rows, tile: Tile, tensor: torch.Tensor, strides: Strides) -> View:
    """A tensor by the axes of a tile's array; of one with one element a row, the two others."""
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
    """All of a problem's tensors; as one row after the other where these are ragged, and pack is not 0. others: the
    strides of those between the first and the output."""
    x = Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)
    strides = (x, *others, Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase))
    found = zip(tensors, strides, strict=True)
    return [flat(tensor) if pack and tensor.ndim == 3 else make_view(rows, tile, tensor, one) for tensor, one in found]


def of_elements(tile: Tile, weight: torch.Tensor) -> View:
    """What there is one of to each element of a row, by the axes of a tile's array."""
    n, stride = weight.shape[0], weight.stride(0)
    return View(weight, (1, 1, n), (0, 0, stride)) if tile.axis == 2 else View(weight, (1, n, 1), (0, stride, 0))


def one_a_row(rows: Rows, tile: Tile, x: torch.Tensor) -> View:
    """A workspace for one number of each row, as computed."""
    found = (rows.columns if tile.axis == 1 else None) or rows
    room = x.new_empty((found.outer, found.inner), dtype=wide_dtype(x.dtype))
    return View(room, tuple(room.shape), room.stride())


def bits(number: float) -> int:
    """A number of float64 as an integer, which a kernel takes for a constant that isn't rounded."""
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)


def workspace(rows: Rows, tile: Tile, plan: Cut, x: torch.Tensor, dtype: torch.dtype) -> View:
    """A workspace for what programs leave of parts of rows: an array of rows with one element to each part."""
    found = (rows.columns if tile.axis == 1 else None) or rows
    sizes = (found.outer, plan.parts, found.inner) if tile.axis == 1 else (found.outer, found.inner, plan.parts)
    room = x.new_empty(sizes, dtype=dtype)
    return View(room, sizes, room.stride())


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What elements are computed in: half precision in float32, integers in 64 bits."""
    if dtype.is_floating_point:
        return torch.float64 if dtype == torch.float64 else torch.float32
    return torch.int64
