import cutlass
import torch
from cutlass import Int32, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.min_backward import device_functions as own
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def partials_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block reads ``span`` blocks of a tile's rows, and stores one count per row."""
    number = dev.block_index(EARLY)
    rows, (x, y, _, _), (counts,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    least = own.load_widened(y, row, rows, TILE)
    # Each thread counts in 32 bits. After the loop, the threads' counts are added up in 64 bits.
    mine = dev.make_accumulator(0, TILE, Int32)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        equal = own.equals_minimum(least, tXgX, tXcX, i, rows, TILE)
        dev.accumulate(mine, dev.thread_reduce(own.as_counts(equal), dev.add, TILE), dev.add)
    found = dev.block_reduce(own.to_int64(dev.list_values(mine)), dev.add, TILE)
    dev.store_partial(found, counts, row, part, parts, rows, TILE)


@cute.kernel
def write_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, y, grad, out), (counts,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    found = dev.list_values(fn.sum_first_parts(counts, row, parts, parts, rows, TILE))
    least = own.load_widened(y, row, rows, TILE)
    shares = own.gradient_shares(own.load_widened(grad, row, rows, TILE), found)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards, because the elements read last are the most likely to be cached.
        last = begin + end - 1 - i
        equal = own.equals_minimum(least, tXgX, tXcX, last, rows, TILE)
        dev.store(own.select_shares(equal, shares, TILE), tXgO, tXcX, last, rows, TILE)


@register("cute", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns, and store counts. A second launch adds them up and writes."""
    id, given = "cute/min_backward/split_two_launches", tiles.make_problem(x, out, y, grad)
    both = partials_kernel, write_kernel
    return launch_in_parts(id, both, (x, y, grad, out), given, tiles.long_row_tile(given), [torch.int64])
