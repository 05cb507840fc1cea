"""The tiles of all kernels: block sizes along the axes outer, n and inner, and the views that kernels receive.

The same kernel works on contiguous and on strided rows, because views have three axes with any strides.
"""

from typing import NamedTuple

import torch

from kernelzoo.device import Device
from kernelzoo.kernels.helion.compiler import ExampleTensor
from kernelzoo.kernels.shared import held_rows
from kernelzoo.kernels.shared.cut import BlockSplit, plan_split
from kernelzoo.kernels.shared.held_rows import check_fits, line_width, row_threads, strip_width
from kernelzoo.kernels.shared.jit import to_column_strides, wide_dtype
from kernelzoo.layout import Columns, Rows, cdiv, layouts_of, next_power_of_two
from kernelzoo.tables import form_knobs, knob, of

FAR = 2**30
"""Tensors of at least this extent, in elements, have 64-bit offsets. It leaves room for a block past the end."""


class Tile(NamedTuple):
    """A program's block sizes along outer, n (``cols``) and inner, all powers of two, and its number of warps."""

    outer: int
    cols: int
    inner: int
    warps: int

    def block_sizes(self, column_loops: int = 1) -> tuple[int, ...]:
        """Return the block sizes of a kernel that has one loop over outer and inner, and ``loops`` loops over n."""
        return self.outer, self.inner, *[self.cols] * column_loops

    def count_tiles(self, rows: Rows) -> int:
        """Return the number of tiles that cover all rows."""
        axes = as_columns_if_strided(rows)
        return cdiv(axes.outer, self.outer) * cdiv(axes.inner, self.inner)


def as_columns_if_strided(rows: Rows) -> Rows | Columns:
    """Return the rows as kernels see them. Strided rows become columns of a matrix whose inner axis is contiguous."""
    return rows.as_columns or rows


def rows_and_views(x: torch.Tensor, out: torch.Tensor, *inputs: torch.Tensor) -> tuple[Rows, tuple[torch.Tensor, ...]]:
    """Return the rows of x and out, and views of x, ``inputs`` and out, in this order. A view has the axes outer, n and
    inner. Without n, it has one element per row. Nothing is copied."""
    rows, others = layouts_of(x, out, *inputs)
    axes = as_columns_if_strided(rows)
    first, last = (axes.x_outer, axes.x_n, axes.x_inner), (axes.out_outer, axes.out_n, axes.out_inner)
    turned = [(to_column_strides(rows, one) if rows.is_strided else one)[:3] for one in others]

    def strided_view(tensor: torch.Tensor, outer: int, along: int, inner: int) -> torch.Tensor:
        if tensor.ndim == 2:
            return tensor.as_strided((axes.outer, axes.inner), (outer, inner))
        return tensor.as_strided((axes.outer, axes.n, axes.inner), (outer, along, inner))

    strides = (first, *turned, last)
    return rows, tuple(strided_view(tensor, *one) for tensor, one in zip((x, *inputs, out), strides, strict=True))


def view_as_one_axis(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return one-axis views of tensors. Each tensor must be one piece of memory. Nothing is copied."""
    return tuple(x.as_strided((x.numel(),), (1,)) for x in tensors)


def hides_vectors(rows: Rows) -> bool:
    """Whether rows have aligned vectors that Triton doesn't detect, since it tests only divisibility by 16. Such rows
    have no gaps. They are unaligned, or they have half precision and 16 doesn't divide their length."""
    pieces = rows.is_gapless and rows.aligned and rows.n >= 4 * rows.vector_elements
    return rows.ends_inside_vector or (pieces and rows.itemsize == 2 and rows.n % 16 > 0)


def vector_log2(rows: Rows) -> int:
    """Return log2 of the number of elements per vector."""
    return rows.vector_elements.bit_length() - 1


def padded_length(rows: Rows) -> int:
    """Return a power of two of elements that covers a row's whole vectors, however the row is aligned."""
    return next_power_of_two(rows.n // rows.vector_elements) * rows.vector_elements


def needs_int64(*tensors: torch.Tensor) -> bool:
    """Whether any tensor's offsets need 64 bits. Sizes are checked too: expanded axes (stride 0) add no extent."""
    return any(
        max(*tensor.shape, sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)))
        >= FAR
        for tensor in tensors
    )


def example_tensors(*tensors: torch.Tensor, one_axis_name: str = "all") -> tuple[ExampleTensor, ...]:
    """Return each tensor's ``ExampleTensor``: dtype and axes. one_axis_name: the axis of tensors that have only one."""
    axes = {1: one_axis_name, 2: "outer inner", 3: "outer n inner"}
    return tuple(ExampleTensor(x.dtype, axes[x.ndim]) for x in tensors)


def acc_dtype(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.dtype:
    """Return the accumulator dtype of x, or the one for both x and an output of another dtype."""
    return wide_dtype(x.dtype if out is None else torch.promote_types(x.dtype, out.dtype))


def adjacent_rows_tile(rows: Rows, count: int, cols: int, warps: int) -> Tile:
    return Tile(1, cols, count, warps) if rows.inner > 1 else Tile(count, cols, 1, warps)


@form_knobs
class Knobs(held_rows.HeldRowKnobs):
    ragged: int = knob(
        256, among=(128, 256, 512), unit="elements",
        why="of a row that begins anywhere, from which on a program has one, and reads vectors",
    )  # fmt: skip


def whole_row_tile(id: str, device: Device, rows: Rows, inputs: int, one_row: bool = False) -> Tile:
    """Return a tile of complete rows that a program keeps in registers. It has one row, short rows in one warp, or a
    strip of columns, a cache line wide if that fits. one_row: whether each short row has its own program. inputs: how
    many tensors of n elements per row stay in registers. Raises UnsupportedProblemError."""
    check_fits(id, rows, inputs)
    cols = next_power_of_two(rows.n)
    if rows.as_columns is not None:
        width = strip_width(rows.as_columns, inputs)
        return Tile(1, cols, width, _count_warps(width * cols * inputs * rows.accumulator_bytes, 128))
    knobs = of(Knobs, device.index)
    many = _count_rows_per_warp(knobs, rows, inputs)
    if many > 1 and not one_row:
        even = next_power_of_two(1 + rows.planned // (knobs.tiles_per_sm * device.multiprocessors))
        return adjacent_rows_tile(rows, min(many, even), cols, 1)
    fed = rows.n if hides_vectors(rows) else cols  # in half precision, the number of threads depends on these elements
    return adjacent_rows_tile(rows, 1, cols, device.warps(min(1024, row_threads(knobs, rows, fed) * inputs)))


def _count_rows_per_warp(knobs: Knobs, rows: Rows, inputs: int) -> int:
    """Return how many rows one warp keeps in registers."""
    return knobs.warp_bytes // rows.accumulator_bytes // inputs // next_power_of_two(rows.n)


def prefers_one_row(device: Device, rows: Rows) -> bool:
    """Whether each program should read one row, in vectors: if rows are uneven and not short."""
    knobs = of(Knobs, device.index)
    return hides_vectors(rows) and (rows.n >= knobs.ragged or _count_rows_per_warp(knobs, rows, 1) < 2)


BLOCK_BYTES = 32768
"""Bytes of a block in the accumulator dtype: 32 float32 elements for each of 256 threads."""


def loop_tile(rows: Rows, bytes: int) -> Tile:
    """Return the tile of a kernel that loops over blocks of rows: a part of one row, or of a cache line of columns.
    bytes: the block's size in the accumulator dtype."""
    elements, columns = bytes // rows.accumulator_bytes, rows.as_columns
    if columns is not None:
        width = line_width(columns)
        depth = max(1, min(next_power_of_two(rows.n), elements // width))
        return Tile(1, depth, width, _count_warps(width * depth * rows.accumulator_bytes, 64))
    cols = min(elements, next_power_of_two(rows.n))
    return Tile(1, cols, 1, _count_warps(cols * rows.accumulator_bytes, 64))


def _count_warps(bytes: int, each: int) -> int:
    """Return the number of warps for a block of ``bytes`` bytes, with ``each`` bytes per thread: at most 8."""
    return max(1, min(8, bytes // (each * 32)))


MOST_PARTS = 256
"""The most programs per tile. Each program reads the partial results of all of them."""


def plan_parts(rows: Rows, tile: Tile, device: Device) -> BlockSplit:
    """Return how the rows of each tile are split among several programs. The span is in elements."""
    elements = tile.outer * tile.inner * rows.n
    found = plan_split(cdiv(rows.n, tile.cols), tile.count_tiles(rows.with_planned_rows), elements, device, MOST_PARTS)
    return found._replace(span=found.span * tile.cols)


def part_workspace(x: torch.Tensor, rows: Rows, plan: BlockSplit, dtype: torch.dtype) -> torch.Tensor:
    axes = as_columns_if_strided(rows)
    return x.new_empty((axes.outer, plan.parts, axes.inner), dtype=dtype)
