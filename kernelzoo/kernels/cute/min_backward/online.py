"""A running count in each thread over blocks of a row, then a pass that reads them again and writes."""

import cutlass
import torch
from cutlass import Int32, cute

from kernelzoo.kernels.cute import tiles, words
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min_backward.words import counted, equal_to, given_to, long, of_each, shares_of
from kernelzoo.kernels.cute.words import Rows, Strides
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, y_at: Strides,
    grad_at: Strides, out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = words.begin(EARLY)
    row, first, here = words.place_of(tile, rows, x_at, TILE)
    x_start, out_start = words.start_of(row, rows, x_at, TILE), words.start_of(row, rows, out_at, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    blocks = words.blocks_of(rows, TILE)
    mine = words.running(0, TILE, Int32)
    for i in cutlass.range(blocks):
        equal = equal_to(least, x, x_at, x_start, rows.n, first + i * TILE.block, here, TILE)
        words.more(mine, words.within(counted(equal), words.add, TILE), words.add)
    counts = words.met(long(words.scalars(mine)), words.add, TILE)
    shares = shares_of(of_each(grad, grad_at, row, rows, here, TILE), counts)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        equal = equal_to(least, x, x_at, x_start, rows.n, element, here, TILE)
        target = words.seen(out, out_start, element, out_at, TILE, 3)
        words.write(given_to(equal, shares, TILE), target, here, element, rows.n, TILE)


@register("cute", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that counts each row's minima, then a pass that reads again and writes."""
    given = tiles.problem(x, out, y, grad)
    return bound("cute/min_backward/online", online_kernel, (x, y, grad, out), given, tiles.block(given))
