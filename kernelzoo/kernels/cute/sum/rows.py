"""A block adds up several rows, or one block by block: a sum in each thread, and what it rounded off."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.shared.minimum import plain
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def summed_type(TILE):
    """What elements are added up in: integers in 64 bits."""
    return dev.acc_type(TILE) if "float" in TILE.dtype else Int64


@cute.kernel
def sum_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    totals = dev.make_accumulator(0, TILE, summed_type(TILE))
    lost = dev.make_accumulator(0, TILE, summed_type(TILE))
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        values = fn.load(x, start, first + i * TILE.block, x_at, rows, here, TILE, instead=0)
        values = dev.map_rows(summed_type(TILE), values, TILE)
        fn.add_exactly(totals, lost, dev.thread_reduce(values, dev.add, TILE))
    write_rows(fn.row_sums((totals, lost), TILE), out, row, rows, out_at, here, TILE)


@register("cute", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A sum in each thread with what it rounded off; threads meet in a tree after the loop."""
    x = plain(x)
    given = tiles.problem(x, out)
    return bound("cute/sum/rows", sum_kernel, (x, out), given, tiles.plain(given))
