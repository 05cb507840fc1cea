"""A running count in each thread over blocks of a row, then a pass that reads them again and writes."""

import cutlass
import torch
from cutlass import Int32, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min_backward.device_functions import counted, equal_to, given_to, long, of_each, shares_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, y_at: Strides,
    grad_at: Strides, out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.begin(EARLY)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    x_start, out_start = dev.start_of(row, rows, x_at, TILE), dev.start_of(row, rows, out_at, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    blocks = dev.blocks_of(rows, TILE)
    mine = dev.running(0, TILE, Int32)
    for i in cutlass.range(blocks):
        equal = equal_to(least, x, x_at, x_start, rows.n, first + i * TILE.block, here, TILE)
        dev.more(mine, dev.within(counted(equal), dev.add, TILE), dev.add)
    counts = dev.met(long(dev.scalars(mine)), dev.add, TILE)
    shares = shares_of(of_each(grad, grad_at, row, rows, here, TILE), counts)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        equal = equal_to(least, x, x_at, x_start, rows.n, element, here, TILE)
        target = dev.seen(out, out_start, element, out_at, TILE, 3)
        dev.write(given_to(equal, shares, TILE), target, here, element, rows.n, TILE)


@register("cute", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that counts each row's minima, then a pass that reads again and writes."""
    given = tiles.problem(x, out, y, grad)
    return bound("cute/min_backward/online", online_kernel, (x, y, grad, out), given, tiles.block(given))
