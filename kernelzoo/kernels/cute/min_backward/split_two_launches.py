"""Several blocks to one row: a launch that leaves their counts, and one that adds these up and writes."""

import cutlass
import torch
from cutlass import Int32, Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.min_backward.device_functions import (
    as_counts,
    equal_tile,
    gradient_of,
    load_each,
    long,
    shares_of,
)
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@cute.kernel
def partials_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, counts: cute.Pointer, rows: Rows,
    x_at: Strides, y_at: Strides, grad_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows, of which it leaves one count to each row."""
    number = dev.block_index(EARLY)
    tile, part = dev.tile_and_part(number, parts)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    least = load_each(y, y_at, row, rows, here, TILE)
    # Every thread counts for itself, in 32 bits, and threads meet once, after the loop, in 64.
    mine = dev.make_accumulator(0, TILE, Int32)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        equal = equal_tile(least, x, x_at, start, rows.n, first + i * TILE.block, here, TILE)
        dev.accumulate(mine, dev.thread_reduce(as_counts(equal), dev.add, TILE), dev.add)
    found = dev.block_reduce(long(dev.registers(mine)), dev.add, TILE)
    dev.store_partial(found, counts, row, part, parts, rows, here, TILE)


@cute.kernel
def write_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, counts: cute.Pointer, rows: Rows,
    x_at: Strides, y_at: Strides, grad_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    number = dev.block_index(EARLY)
    tile, part = dev.tile_and_part(number, parts)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    every = dev.make_accumulator(0, TILE, Int64)
    for other in cutlass.range(dev.thread_coords(TILE)[1], parts, TILE.lanes):
        left = dev.load_rows(counts, *dev.partial_offset(row, other, parts, rows, TILE), here, TILE)
        dev.accumulate(every, dev.registers(left), dev.add)
    found = dev.block_reduce(dev.registers(every), dev.add, TILE)
    least = load_each(y, y_at, row, rows, here, TILE)
    shares = shares_of(load_each(grad, grad_at, row, rows, here, TILE), found)
    x_start, out_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, out_at, TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        element = first + (begin + end - 1 - i) * TILE.block
        equal = equal_tile(least, x, x_at, x_start, rows.n, element, here, TILE)
        tXgO = dev.make_thread_tensor(out, out_start, element, out_at, TILE, 3)
        dev.store_tile(gradient_of(equal, shares, TILE), tXgO, here, element, rows.n, TILE)


@register("cute", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row, or strip of columns, leave counts in a workspace; a second launch writes."""
    id, tensors, given = "cute/min_backward/split_two_launches", (x, y, grad, out), tiles.problem(x, out, y, grad)
    tile = tiles.block(given)
    plan = tiles.cut(given, tile, device_of(x))
    counts = x.new_empty(given.total * plan.parts, dtype=torch.int64)
    blocks = tile.count(given.total) * plan.parts
    both = partials_kernel, write_kernel
    return sequence(*(bound(id, kernel, tensors, given, tile, (), plan, (counts,), blocks) for kernel in both))
