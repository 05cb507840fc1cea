"""A running sum in each thread over blocks of a row of both inputs, then a pass that reads them again and writes."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax_backward.tile_kernel import given_by
from kernelzoo.kernels.cute.softmax_backward.words import elements_of, gradient, products
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
    of_rows,
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
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, rows: Rows, grad_at: Strides, y_at: Strides,
    out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, grad_at, TILE), TILE)
    here = exists(row, rows, TILE)
    grad_start, y_start = start_of(row, rows, grad_at, TILE), start_of(row, rows, y_at, TILE)
    out_start = start_of(row, rows, out_at, TILE)
    blocks = blocks_of(rows, TILE)
    sums = running(0, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        grads = elements_of(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = elements_of(y, y_at, y_start, rows.n, element, here, TILE, 1)
        more(sums, within(products(grads, weights), add, TILE), add)
    totals = of_rows(met(scalars(sums), add, TILE), TILE)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        grads = elements_of(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = elements_of(y, y_at, y_start, rows.n, element, here, TILE, 1)
        target = seen(out, out_start, element, out_at, TILE, 2)
        store(narrowed(gradient(grads, weights, totals), out.dtype, TILE), target, here, element, rows.n, TILE)


@register("cute", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each thread, then a pass that reads again and writes."""
    given = given_by(grad, y, out)
    return bound("cute/softmax_backward/online", online_kernel, (grad, y, out), given, block(given, 2))
