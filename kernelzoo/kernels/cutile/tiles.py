"""Tiles: how many rows, and elements of each, a program has at a time. Chosen here, for every kernel.

Which thread holds what of a tile is the compiler's choice, as are vectors; sizes are powers of two.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.cutile.launch import View
from kernelzoo.layout import VECTOR_BYTES, Rows, Strides, cdiv, power_of_two

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows that lie across memory are taken by the cache line, at the least by the sector of a line."""

HELD_BYTES = 131072
"""As computed, of the largest tile that a program holds: 128 registers of each of 256 threads."""

STRIP_BYTES = 65536
"""Of the largest strip of columns, whose threads meet in shared memory."""

CROWD = 4
"""Programs per SM that fill the device."""

LEAST_PART = 4096
"""Elements of a tile's rows together that are worth a program of their own."""

MOST_PARTS = 512
"""Programs to a tile, at the most: each, or the last, reads what all of them have left."""


class Tile(NamedTuple):
    """A tile: its size along the three axes of an array of rows, the axis of the elements, and warps of a program."""

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
        """How many programs that loop over blocks the compiler must let fit on a multiprocessor: so many, one less in
        float64, whose exponential takes more registers, and None, its own choice, where lanes have no vectors. ragged:
        they have, though rows begin anywhere."""
        vectors = ragged or rows.common * rows.itemsize >= VECTOR_BYTES
        return many - (rows.itemsize == 8) if vectors and self.axis == 2 else None

    def fold(self, rows: Rows) -> int:
        """Elements of a vector, as far as a row has them in a tile, of which a lane makes one."""
        return min(VECTOR_BYTES // rows.itemsize, self.shape[2])


def wide_bytes(rows: Rows) -> int:
    """Bytes of an element as it is computed."""
    return max(4, rows.itemsize)


def _warps(bytes: int) -> int:
    """Those of which each thread has 32 registers for so many bytes, as far as the compiler takes other numbers."""
    return 4 if bytes <= 32 * 4 * 128 else 8


def along(rows: Rows, many: int, cols: int, inputs: int = 1) -> Tile:
    """A tile of so many rows that lie along memory, of one group or of several whole ones. inputs: how many tensors of
    n elements a row are held."""
    strip = min(many, power_of_two(rows.inner))
    groups = min(many // strip, power_of_two(rows.outer))
    return Tile((groups, strip, cols), 2, _warps(groups * strip * cols * wide_bytes(rows) * inputs))


def across(rows: Rows, wide: int, depth: int, inputs: int = 1) -> Tile:
    """A tile of so many neighbouring columns."""
    return Tile((1, depth, wide), 1, _warps(wide * depth * wide_bytes(rows) * inputs))


def row_tile(rows: Rows, inputs: int, id: str) -> Tile:
    """A tile of one row. inputs: how many tensors of n elements a row are held.

    Raises UnsupportedProblemError if no program can hold a row.
    """
    most = HELD_BYTES // wide_bytes(rows) // inputs
    if rows.n > most:
        raise UnsupportedProblemError(id, f"a row must fit on chip, {most} of {rows.dtype}; got {rows.n}")
    cols = power_of_two(rows.n)
    return Tile((1, 1, cols), 2, _warps(cols * wide_bytes(rows) * inputs))


def short_tile(bytes: int, tiles_per_sm: int, device: Device, rows: Rows, inputs: int) -> Tile | None:
    """A tile of short rows side by side, of so many bytes as computed of each input; None where that is no two rows."""
    cols = power_of_two(rows.n)
    many = bytes // wide_bytes(rows) // cols
    if rows.across or many < 2:
        return None
    even = power_of_two(1 + rows.total // (tiles_per_sm * device.multiprocessors))
    return along(rows, min(many, max(2, even)), cols, inputs)


def strip(rows: Rows, inputs: int, id: str) -> Tile:
    """A tile of whole columns, which a program holds.

    Raises UnsupportedProblemError where rows don't lie across memory, or no program holds them.
    """
    across_or_refuse(rows, id)
    made = strip_or_none(rows, inputs)
    if made is None:
        raise UnsupportedProblemError(id, f"no program holds columns of {rows.n} elements")
    return made


def strip_or_none(rows: Rows, inputs: int) -> Tile | None:
    """``strip``, None where there is none: a line of memory of columns, or down to a sector if they fit then."""
    columns = rows.columns
    if columns is None:
        return None
    depth, wide = power_of_two(rows.n), min(LINE_BYTES // rows.itemsize, power_of_two(columns.inner))
    room = STRIP_BYTES // wide_bytes(rows) // inputs
    while wide * depth > room and wide * rows.itemsize > SECTOR_BYTES:
        wide //= 2
    return across(rows, wide, depth, inputs) if wide * depth <= room else None


def block(rows: Rows, bytes: int, inputs: int = 1, elements: int = HELD_BYTES) -> Tile:
    """A tile of so many bytes as computed and so many elements at the most, for kernels that go through rows in blocks:
    a part of one row, or of each of a line's worth of columns. inputs: how many such tiles are held at a time."""
    room, columns = min(bytes // wide_bytes(rows), elements), rows.columns
    if columns is None:
        return along(rows, 1, min(room, power_of_two(rows.n)), inputs)
    wide = min(LINE_BYTES // rows.itemsize, power_of_two(columns.inner), room)
    return across(rows, wide, min(power_of_two(rows.n), room // wide), inputs)


def across_or_refuse(rows: Rows, id: str) -> None:
    """Raise UnsupportedProblemError where rows don't lie across memory."""
    if rows.columns is None:
        raise UnsupportedProblemError(id, "it takes columns, and the rows of this problem don't lie across memory")


class Cut(NamedTuple):
    """How rows are cut where several programs take each: programs to a tile, and blocks that each takes."""

    parts: int
    span: int

    @property
    def merged(self) -> int:
        """The tile's size along rows of what all of them have left."""
        return power_of_two(self.parts)


def cut(rows: Rows, tile: Tile, device: Device) -> Cut:
    """Parts of rows, at least two where a row has two blocks, for as many programs as fill the device."""
    blocks = cdiv(rows.n, tile.block)
    lanes = tile.shape[0] * tile.shape[3 - tile.axis]
    wanted = cdiv(CROWD * device.multiprocessors, tile.count(rows))
    parts = max(1, min(blocks, max(2, min(wanted, MOST_PARTS, lanes * rows.n // LEAST_PART))))
    span = cdiv(blocks, parts)
    return Cut(cdiv(blocks, span), span)


def is_ragged(rows: Rows, x: torch.Tensor) -> bool:
    """Whether rows follow each other without a gap, and begin anywhere in vectors though the first begins with one."""
    return rows.ragged and not flat(x).far


def inside_sizes(rows: Rows) -> tuple[int, int]:
    """Of rows that are ragged: elements of a vector, and the power of two that holds a row's whole vectors."""
    pack = VECTOR_BYTES // rows.itemsize
    return pack, power_of_two(rows.n // pack) * pack


def flat(tensor: torch.Tensor) -> View:
    """A tensor that is one piece of memory, as one axis."""
    return View(tensor, (tensor.numel(),), (1,))


# --- Tensors as arrays ----------------------------------------------------------------------------------------------


def seen(rows: Rows, tile: Tile, tensor: torch.Tensor, strides: Strides) -> View:
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


def of_x(rows: Rows) -> Strides:
    """The strides of a problem's first tensor."""
    return Strides(rows.x_outer, rows.x_n, rows.x_inner, rows.x_phase)


def of_out(rows: Rows) -> Strides:
    """The strides of a problem's output."""
    return Strides(rows.out_outer, rows.out_n, rows.out_inner, rows.out_phase)


def seen_all(rows: Rows, tile: Tile, tensors: Sequence[torch.Tensor], others: Sequence[Strides] = ()) -> list[View]:
    """All of a problem's tensors. others: the strides of those between the first and the output."""
    strides = (of_x(rows), *others, of_out(rows))
    return [seen(rows, tile, tensor, one) for tensor, one in zip(tensors, strides, strict=True)]


def left(rows: Rows, tile: Tile, plan: Cut, x: torch.Tensor, dtype: torch.dtype) -> View:
    """A workspace for what programs leave of parts of rows: an array of rows with one element to each part."""
    found = (rows.columns if tile.axis == 1 else None) or rows
    sizes = (found.outer, plan.parts, found.inner) if tile.axis == 1 else (found.outer, found.inner, plan.parts)
    room = x.new_empty(sizes, dtype=dtype)
    return View(room, sizes, room.stride())


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """What floating-point elements are computed in: half precision in float32."""
    return torch.float64 if dtype == torch.float64 else torch.float32
