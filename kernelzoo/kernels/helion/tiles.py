"""Blocks of rows: what a program takes of axes (outer, n, inner), chosen here for every kernel, and the views that
kernels take.

A kernel says what is done to a block, and never whether it lies along memory or across it: an array of three axes has
strides of its own.
"""

from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.helion.compiler import Example
from kernelzoo.kernels.shared.jit import by_columns, wide_dtype
from kernelzoo.layout import Columns, Rows, Strides, cdiv, power_of_two

FAR = 2**30
"""Elements from a tensor's first to its last from which on offsets are counted in 64 bits: what a block has past an end
is counted too."""

LINE_BYTES, SECTOR_BYTES = 128, 32
"""Rows that lie across memory are taken by the cache line, at the least by the sector of a line."""

HELD_BYTES = 65536
"""Of a strip of columns as it is computed, that a program holds: 64 registers of each of 256 threads."""


class Tile(NamedTuple):
    """A program's block: elements along outer, n and inner, powers of two, and its warps."""

    outer: int
    cols: int
    inner: int
    warps: int

    def count(self, rows: Rows) -> int:
        """Tiles that a problem has, by number of its rows."""
        lies = placed(rows)
        return cdiv(lies.outer, self.outer) * cdiv(lies.inner, self.inner)


def placed(rows: Rows) -> Rows | Columns:
    """The problem as kernels see it: neighbours in memory along inner, if they are not along n."""
    return rows.columns or rows


def seen(rows: Rows, x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both tensors as kernels see them: axes outer, n and inner, of a reduction's output outer and inner. No copy."""
    lies = placed(rows)
    to = Strides(lies.out_outer, lies.out_n, lies.out_inner, 0)
    return _view(lies, x, Strides(lies.x_outer, lies.x_n, lies.x_inner, 0)), _view(lies, out, to)


def flat(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors that are one piece of memory each, as one axis. No copy."""
    return tuple(x.as_strided((x.numel(),), (1,)) for x in tensors)


def uneven(rows: Rows) -> bool:
    """Whether rows that follow each other without a gap have vectors that Triton doesn't see: they begin anywhere, or
    are of half precision and no multiple of 16 elements, the only one that it asks a number about."""
    pieces = rows.one_piece and rows.aligned and rows.n >= 4 * rows.whole_vector
    return rows.ragged or (pieces and rows.itemsize == 2 and rows.n % 16 > 0)


def shift_of(rows: Rows) -> int:
    """Elements of a vector, as the power of two that they are."""
    return rows.whole_vector.bit_length() - 1


def whole_of(rows: Rows) -> int:
    """The power of two of elements that holds a row's whole vectors, wherever it begins."""
    return power_of_two(rows.n // rows.whole_vector) * rows.whole_vector


def seen_beside(rows: Rows, tensor: torch.Tensor, strides: Strides) -> torch.Tensor:
    """Another tensor as kernels see it, whose strides are counted by the rows of x."""
    return _view(placed(rows), tensor, by_columns(rows, strides) if rows.across else strides)


def _view(lies: Rows | Columns, tensor: torch.Tensor, strides: Strides) -> torch.Tensor:
    outer, along, inner, _ = strides
    if tensor.ndim == 2:
        return tensor.as_strided((lies.outer, lies.inner), (outer, inner))
    return tensor.as_strided((lies.outer, lies.n, lies.inner), (outer, along, inner))


def far(*tensors: torch.Tensor) -> bool:
    """Whether offsets in any of these need 64 bits; an axis that is expanded is long and has no extent."""
    return any(
        max(*tensor.shape, sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))
        >= FAR
        for tensor in tensors
    )


def examples(*tensors: torch.Tensor) -> tuple[Example, ...]:
    """What kernels are made for: tensors of their dtypes and axes."""
    return tuple(Example(x.dtype, "outer n inner" if x.ndim == 3 else "outer inner") for x in tensors)


def wide_bytes(rows: Rows) -> int:
    """Bytes of an element as it is computed."""
    return max(4, rows.itemsize)


def wide(x: torch.Tensor) -> torch.dtype:
    """What x's elements are computed in."""
    return wide_dtype(x.dtype)


def side_by_side(rows: Rows, many: int, cols: int, warps: int) -> Tile:
    """A tile of so many rows along memory."""
    return Tile(1, cols, many, warps) if rows.inner > 1 else Tile(many, cols, 1, warps)


def strip_or_none(rows: Rows, inputs: int) -> Tile | None:
    """A strip of whole columns that a program holds, of so many inputs: a line of memory of them, or down to a sector.
    None where rows don't lie across memory, or none fits."""
    columns = rows.columns
    if columns is None:
        return None
    depth = power_of_two(rows.n)
    wide = _width(columns)
    room = HELD_BYTES // wide_bytes(rows) // inputs
    while wide * depth > room and wide * rows.itemsize > SECTOR_BYTES:
        wide //= 2
    if wide * depth > room:
        return None
    return Tile(1, depth, wide, _warps(wide * depth * inputs * wide_bytes(rows), 128))


def strip(rows: Rows, inputs: int, id: str) -> Tile:
    """``strip_or_none``. Raises UnsupportedProblemError where there is none."""
    made = strip_or_none(rows, inputs)
    if made is None:
        reason = (
            "it takes columns, and the rows of this problem don't lie across memory"
            if rows.columns is None
            else f"no program holds columns of {rows.n} elements"
        )
        raise UnsupportedProblemError(id, reason)
    return made


def block(rows: Rows, bytes: int) -> Tile:
    """A tile of so many bytes as computed, for kernels that go through rows in blocks: a part of one row, or of each of
    a line's worth of columns."""
    elements, columns = bytes // wide_bytes(rows), rows.columns
    if columns is not None:
        wide = _width(columns)
        depth = max(1, min(power_of_two(rows.n), elements // wide))
        return Tile(1, depth, wide, _warps(wide * depth * wide_bytes(rows), 64))
    cols = min(elements, power_of_two(rows.n))
    return Tile(1, cols, 1, _warps(cols * wide_bytes(rows), 64))


def _width(columns: Columns) -> int:
    """A line of memory of columns, or all of them if they are few."""
    return min(LINE_BYTES // columns.itemsize, power_of_two(columns.inner))


def _warps(bytes: int, each: int) -> int:
    """Warps for a block of so many bytes, so many to a thread."""
    return max(1, min(8, bytes // (each * 32)))


class Cut(NamedTuple):
    """Programs to a tile of rows, and elements of each row that one takes."""

    parts: int
    span: int


CROWD = 4
"""Programs per multiprocessor that fill the device."""

LEAST_PART = 4096
"""Elements of a tile's rows together that are worth a program of their own."""

MOST_PARTS = 256
"""Programs to a tile, at the most: each reads what all of them have left."""


def cut(rows: Rows, tile: Tile, device: Device) -> Cut:
    """Parts of rows, of whole blocks, for as many programs as fill the device; at least two where a row has two
    blocks."""
    wanted = cdiv(CROWD * device.multiprocessors, tile.count(rows))
    most = min(MOST_PARTS, tile.outer * tile.inner * rows.n // LEAST_PART)
    blocks = cdiv(rows.n, tile.cols)
    span = cdiv(blocks, max(2, min(wanted, most, blocks))) * tile.cols
    return Cut(cdiv(rows.n, span), span)
