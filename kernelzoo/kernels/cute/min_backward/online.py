"""A running count in each thread over blocks of a row, then a pass that reads them again and writes."""

import cutlass
import torch
from cutlass import Int32, cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min_backward.tile_kernel import given_by
from kernelzoo.kernels.cute.min_backward.words import counted, equal_to, given_to, long, of_each, shares_of
from kernelzoo.kernels.cute.tiles import block
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    add,
    blocks_of,
    exists,
    first_element,
    first_row,
    met,
    more,
    narrowed,
    running,
    scalars,
    seen,
    start_of,
    store,
    wait,
    within,
)  # fmt: skip
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, y_at: Strides,
    grad_at: Strides, out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, x_at, TILE), TILE)
    here = exists(row, rows, TILE)
    x_start, out_start = start_of(row, rows, x_at, TILE), start_of(row, rows, out_at, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    blocks = blocks_of(rows, TILE)
    mine = running(0, TILE, Int32)
    for i in cutlass.range(blocks):
        equal = equal_to(least, x, x_at, x_start, rows.n, first + i * TILE.block, here, TILE)
        more(mine, within(counted(equal), add, TILE), add)
    counts = met(long(scalars(mine)), add, TILE)
    shares = shares_of(of_each(grad, grad_at, row, rows, here, TILE), counts)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        equal = equal_to(least, x, x_at, x_start, rows.n, element, here, TILE)
        target = seen(out, out_start, element, out_at, TILE, 3)
        store(narrowed(given_to(equal, shares, TILE), out.dtype, TILE), target, here, element, rows.n, TILE)


@register("cute", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that counts each row's minima, then a pass that reads again and writes."""
    given = given_by(x, y, grad, out)
    return bound("cute/min_backward/online", online_kernel, (x, y, grad, out), given, block(given))
