"""Several blocks to one row: a launch that leaves their counts, and one that adds these up and writes."""

import cutlass
import torch
from cutlass import Int32, Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.min_backward.device_functions import counted, equal_to, given_to, long, of_each, shares_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@cute.kernel
def leave_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, counts: cute.Pointer, rows: Rows,
    x_at: Strides, y_at: Strides, grad_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows, of which it leaves one count to each row."""
    number = dev.begin(EARLY)
    tile, part = dev.share_of(number, parts)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    start = dev.start_of(row, rows, x_at, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    # Every thread counts for itself, in 32 bits, and threads meet once, after the loop, in 64.
    mine = dev.running(0, TILE, Int32)
    begin, end = dev.stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        equal = equal_to(least, x, x_at, start, rows.n, first + i * TILE.block, here, TILE)
        dev.more(mine, dev.within(counted(equal), dev.add, TILE), dev.add)
    found = dev.met(long(dev.scalars(mine)), dev.add, TILE)
    dev.leave_part(found, counts, row, part, parts, rows, here, TILE)


@cute.kernel
def write_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, counts: cute.Pointer, rows: Rows,
    x_at: Strides, y_at: Strides, grad_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    number = dev.begin(EARLY)
    tile, part = dev.share_of(number, parts)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    every = dev.running(0, TILE, Int64)
    for other in cutlass.range(dev.thread_of(TILE)[1], parts, TILE.lanes):
        left = dev.one_a_row(counts, *dev.left_at(row, other, parts, rows, TILE), here, TILE)
        dev.more(every, dev.scalars(left), dev.add)
    found = dev.met(dev.scalars(every), dev.add, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    shares = shares_of(of_each(grad, grad_at, row, rows, here, TILE), found)
    x_start, out_start = dev.start_of(row, rows, x_at, TILE), dev.start_of(row, rows, out_at, TILE)
    begin, end = dev.stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        element = first + (begin + end - 1 - i) * TILE.block
        equal = equal_to(least, x, x_at, x_start, rows.n, element, here, TILE)
        target = dev.seen(out, out_start, element, out_at, TILE, 3)
        dev.write(given_to(equal, shares, TILE), target, here, element, rows.n, TILE)


@register("cute", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row, or strip of columns, leave counts in a workspace; a second launch writes."""
    id, tensors, given = "cute/min_backward/split_two_launches", (x, y, grad, out), tiles.problem(x, out, y, grad)
    tile = tiles.block(given)
    plan = tiles.cut(given, tile, device_of(x))
    counts = x.new_empty(given.total * plan.parts, dtype=torch.int64)
    blocks = tile.count(given.total) * plan.parts
    both = leave_kernel, write_kernel
    return sequence(*(bound(id, kernel, tensors, given, tile, (), plan, (counts,), blocks) for kernel in both))
