import cutlass
import torch
from cutlass import Int32, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min_backward import device_functions as own
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, y, grad, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    least = own.load_widened(y, row, rows, TILE)
    blocks = dev.blocks_per_row(rows, TILE)
    mine = dev.make_accumulator(0, TILE, Int32)
    for i in cutlass.range(blocks):
        equal = own.equals_minimum(least, tXgX, tXcX, i, rows, TILE)
        dev.accumulate(mine, dev.thread_reduce(own.as_counts(equal), dev.add, TILE), dev.add)
    counts = dev.block_reduce(own.to_int64(dev.list_values(mine)), dev.add, TILE)
    shares = own.gradient_shares(own.load_widened(grad, row, rows, TILE), counts)
    for i in cutlass.range(blocks):
        # Backwards, because the elements read last are the most likely to be cached.
        equal = own.equals_minimum(least, tXgX, tXcX, blocks - 1 - i, rows, TILE)
        dev.store(own.select_shares(equal, shares, TILE), tXgO, tXcX, blocks - 1 - i, rows, TILE)


@register("cute", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """The first pass counts each row's minima. The second pass reads the row again and writes."""
    given = tiles.make_problem(x, out, y, grad)
    return bind("cute/min_backward/online", online_kernel, (x, y, grad, out), given, tiles.long_row_tile(given))
