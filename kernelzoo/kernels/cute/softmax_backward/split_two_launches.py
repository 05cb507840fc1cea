"""Several blocks to one row: a launch that leaves their sums, and one that adds these up and writes."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.softmax_backward.tile_kernel import given_by
from kernelzoo.kernels.cute.softmax_backward.words import elements_of, gradient, products
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    add,
    exists,
    first_element,
    first_row,
    leave_rows,
    left_at,
    met,
    more,
    narrowed,
    of_rows,
    one_a_row,
    one_each,
    running,
    scalars,
    seen,
    share_of,
    start_of,
    store,
    stretch_of,
    thread_of,
    wait,
    within,
)  # fmt: skip
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@cute.kernel
def leave_kernel(
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, sums: cute.Pointer, rows: Rows, grad_at: Strides,
    y_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows, of which it leaves one sum to each row."""
    wait(EARLY)
    number, _, _ = cute.arch.block_idx()
    tile, part = share_of(number, parts)
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, grad_at, TILE), TILE)
    here = exists(row, rows, TILE)
    grad_start, y_start = start_of(row, rows, grad_at, TILE), start_of(row, rows, y_at, TILE)
    mine = running(0, TILE)
    begin, end = stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        element = first + i * TILE.block
        grads = elements_of(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = elements_of(y, y_at, y_start, rows.n, element, here, TILE, 1)
        more(mine, within(products(grads, weights), add, TILE), add)
    left = one_each(met(scalars(mine), add, TILE), sums.dtype)
    leave_rows(left, sums, *left_at(row, part, parts, rows, TILE), here & (thread_of(TILE)[1] == 0), TILE)


@cute.kernel
def write_kernel(
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, sums: cute.Pointer, rows: Rows, grad_at: Strides,
    y_at: Strides, out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """Every block adds up all sums of its rows in the same order, so that all agree to the bit."""
    wait(EARLY)
    number, _, _ = cute.arch.block_idx()
    tile, part = share_of(number, parts)
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, grad_at, TILE), TILE)
    here = exists(row, rows, TILE)
    every = running(0, TILE)
    for other in cutlass.range(thread_of(TILE)[1], parts, TILE.lanes):
        more(every, scalars(one_a_row(sums, *left_at(row, other, parts, rows, TILE), here, TILE)), add)
    totals = of_rows(met(scalars(every), add, TILE), TILE)
    grad_start, y_start = start_of(row, rows, grad_at, TILE), start_of(row, rows, y_at, TILE)
    out_start = start_of(row, rows, out_at, TILE)
    begin, end = stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        element = first + (begin + end - 1 - i) * TILE.block
        grads = elements_of(grad, grad_at, grad_start, rows.n, element, here, TILE, 0)
        weights = elements_of(y, y_at, y_start, rows.n, element, here, TILE, 1)
        target = seen(out, out_start, element, out_at, TILE, 2)
        store(narrowed(gradient(grads, weights, totals), out.dtype, TILE), target, here, element, rows.n, TILE)


@register("cute", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row, or strip of columns, leave sums in a workspace; a second launch writes.

    It reads every row twice, and no block waits for another.
    """
    id, tensors, given = "cute/softmax_backward/split_two_launches", (grad, y, out), given_by(grad, y, out)
    tile = tiles.block(given, 2)
    plan = tiles.cut(given, tile, device_of(grad))
    sums = grad.new_empty(given.total * plan.parts, dtype=tiles.wide_dtype(grad.dtype))
    blocks = tile.count(given.total) * plan.parts
    both = leave_kernel, write_kernel
    return sequence(*(bound(id, kernel, tensors, given, tile, (), plan, (sums,), blocks) for kernel in both))
