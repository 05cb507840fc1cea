"""Blocks of rows: what a program takes of axes (outer, n, inner), chosen here for every kernel, and the views that
kernels take.

A kernel says what is done to a block, and never whether it lies along memory or across it: an array of three axes has
strides of its own.
"""

from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion.compiler import Example
from kernelzoo.kernels.shared import held_rows
from kernelzoo.kernels.shared.cut import Cut, cut
from kernelzoo.kernels.shared.held_rows import check_held, line_of, row_threads, strip_of
from kernelzoo.kernels.shared.jit import by_columns, wide_dtype
from kernelzoo.layout import Columns, Rows, cdiv, power_of_two, rows_with
from kernelzoo.tables import knob, numbers, of

FAR = 2**30
"""Elements from a tensor's first to its last from which on offsets are counted in 64 bits: what a block has past an end
is counted too."""


class Tile(NamedTuple):
    """A program's block: elements along outer, n and inner, powers of two, and its warps."""

    outer: int
    cols: int
    inner: int
    warps: int

    def blocks(self, loops: int = 1) -> tuple[int, ...]:
        """Sizes for a kernel that has all of outer and inner at once, and goes along n in so many loops."""
        return self.outer, self.inner, *[self.cols] * loops

    def count(self, rows: Rows) -> int:
        """Tiles that a problem has, by number of its rows."""
        lies = placed(rows)
        return cdiv(lies.outer, self.outer) * cdiv(lies.inner, self.inner)


def placed(rows: Rows) -> Rows | Columns:
    """The problem as kernels see it: neighbours in memory along inner, if they are not along n."""
    return rows.columns or rows


def problem(x: torch.Tensor, out: torch.Tensor, *beside: torch.Tensor) -> tuple[Rows, tuple[torch.Tensor, ...]]:
    """Where rows lie, and x, tensors beside it and out as kernels see them: axes outer, n and inner, or of what has one
    element a row outer and inner. No copy."""
    rows, others = rows_with(x, out, *beside)
    lies = placed(rows)
    first, last = (lies.x_outer, lies.x_n, lies.x_inner), (lies.out_outer, lies.out_n, lies.out_inner)
    turned = [(by_columns(rows, one) if rows.across else one)[:3] for one in others]

    def view(tensor: torch.Tensor, outer: int, along: int, inner: int) -> torch.Tensor:
        if tensor.ndim == 2:
            return tensor.as_strided((lies.outer, lies.inner), (outer, inner))
        return tensor.as_strided((lies.outer, lies.n, lies.inner), (outer, along, inner))

    strides = (first, *turned, last)
    return rows, tuple(view(tensor, *one) for tensor, one in zip((x, *beside, out), strides, strict=True))


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


def far(*tensors: torch.Tensor) -> bool:
    """Whether offsets in any of these need 64 bits; an axis that is expanded is long and has no extent."""
    return any(
        max(*tensor.shape, sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))
        >= FAR
        for tensor in tensors
    )


def examples(*tensors: torch.Tensor, one: str = "all") -> tuple[Example, ...]:
    """What kernels are made for: tensors of their dtypes and axes. one: the axis of those that have one."""
    axes = {1: one, 2: "outer inner", 3: "outer n inner"}
    return tuple(Example(x.dtype, axes[x.ndim]) for x in tensors)


def wide(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.dtype:
    """What x's elements are computed in; of an output of another dtype, what holds both."""
    return wide_dtype(x.dtype if out is None else torch.promote_types(x.dtype, out.dtype))


def side_by_side(rows: Rows, many: int, cols: int, warps: int) -> Tile:
    return Tile(1, cols, many, warps) if rows.inner > 1 else Tile(many, cols, 1, warps)


@numbers
class Numbers(held_rows.Numbers):
    ragged: int = knob(
        256, among=(128, 256, 512), unit="elements",
        why="of a row that begins anywhere, from which on a program has one, and reads vectors",
    )  # fmt: skip


def held(id: str, device: Device, rows: Rows, inputs: int, alone: bool = False) -> Tile:
    """Short rows side by side, which one warp holds, unless alone; one row; or of rows that lie across memory a strip,
    a line wide if it fits. inputs: how many tensors of n elements a row are held. Raises UnsupportedProblemError."""
    check_held(id, rows, inputs)
    cols = power_of_two(rows.n)
    if rows.columns is not None:
        wide = strip_of(rows.columns, inputs)
        return Tile(1, cols, wide, _warps(wide * cols * inputs * rows.wide_bytes, 128))
    knobs = of(Numbers, device.index)
    many = _short_rows(knobs, rows, inputs)
    if many > 1 and not alone:
        even = power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return side_by_side(rows, min(many, even), cols, 1)
    fed = rows.n if uneven(rows) else cols  # of half precision as many as the tile can
    return side_by_side(rows, 1, cols, device.warps(min(1024, row_threads(knobs, rows, fed) * inputs)))


def _short_rows(knobs: Numbers, rows: Rows, inputs: int) -> int:
    """How many rows a warp holds."""
    return knobs.warp_bytes // rows.wide_bytes // inputs // power_of_two(rows.n)


def is_alone(device: Device, rows: Rows) -> bool:
    """Whether a row begins anywhere, and is no short one: a program has one then, and reads vectors."""
    knobs = of(Numbers, device.index)
    return uneven(rows) and (rows.n >= knobs.ragged or _short_rows(knobs, rows, 1) < 2)


BLOCK_BYTES = 32768
"""Of a block as it is computed: 32 float32 elements to each of 256 threads."""


def block(rows: Rows, bytes: int) -> Tile:
    """A tile of so many bytes as computed, for kernels that go through rows in blocks: a part of one row, or of each of
    a line's worth of columns."""
    elements, columns = bytes // rows.wide_bytes, rows.columns
    if columns is not None:
        wide = line_of(columns)
        depth = max(1, min(power_of_two(rows.n), elements // wide))
        return Tile(1, depth, wide, _warps(wide * depth * rows.wide_bytes, 64))
    cols = min(elements, power_of_two(rows.n))
    return Tile(1, cols, 1, _warps(cols * rows.wide_bytes, 64))


def _warps(bytes: int, each: int) -> int:
    """Warps for a block of so many bytes, so many to a thread."""
    return max(1, min(8, bytes // (each * 32)))


MOST_PARTS = 256
"""Programs to a tile, at the most: each reads what all of them have left."""


def cut_of(rows: Rows, tile: Tile, device: Device) -> Cut:
    """How several programs take the rows of each tile; the span is in elements."""
    elements = tile.outer * tile.inner * rows.n
    found = cut(cdiv(rows.n, tile.cols), tile.count(rows.as_planned), elements, device, MOST_PARTS)
    return found._replace(span=found.span * tile.cols)


def left_of(x: torch.Tensor, rows: Rows, plan: Cut, dtype: torch.dtype) -> torch.Tensor:
    lies = placed(rows)
    return x.new_empty((lies.outer, plan.parts, lies.inner), dtype=dtype)
