"""A block takes several rows, or one block by block: sums within a block, plus those of the blocks before, in order."""

import cutlass
import torch
from cutlass import Boolean, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.cumsum.device_functions import make_room, scan_tile
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.sum.rows import summed_type
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@cute.jit
def write_sums(
    totals: cute.Tensor, x: cute.Pointer, out: cute.Pointer, row, first, begin, end, x_at: Strides, out_at: Strides,
    rows: Rows, here: Boolean, TILE: cutlass.Constexpr,
):  # fmt: skip
    """Running sums of a thread's rows from one block to another. totals: of what is before, and what is read, after."""
    x_start, out_start = fn.row_offsets(row, rows, (x_at, out_at), TILE)
    room = make_room(totals.element_type, TILE)
    for i in cutlass.range(begin, end):
        element = first + i * TILE.block
        values = fn.load(x, x_start, element, x_at, rows, here, TILE, instead=0)
        result = scan_tile(totals, dev.map_rows(totals.element_type, values, TILE), room, TILE)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 1)


@cute.kernel
def cumsum_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    begin, end = dev.all_blocks(rows, TILE)
    totals = dev.make_accumulator(0, TILE, summed_type(TILE))
    write_sums(totals, x, out, row, first, begin, end, x_at, out_at, rows, here, TILE)


@register("cute", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A thread adds up vectors in order, and threads' sums are a scan; those of vectors side by side come in order."""
    x = plain(x)
    given = tiles.problem(x, out)
    return bound("cute/cumsum/rows", cumsum_kernel, (x, out), given, tiles.plain(given))
