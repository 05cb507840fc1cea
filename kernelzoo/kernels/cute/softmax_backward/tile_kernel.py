"""A tile of whole rows of both inputs to a block, which holds them in registers: one kernel, of which fused,
multi_row_tile and columns have each a tile."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax_backward.words import elements_of, gradient, products
from kernelzoo.kernels.cute.tiles import Problem, Tile, problem
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    add,
    exists,
    first_element,
    first_row,
    met,
    narrowed,
    of_rows,
    seen,
    start_of,
    store,
    wait,
    within,
)  # fmt: skip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with


@cute.kernel
def tile_kernel(
    grad: cute.Pointer, y: cute.Pointer, out: cute.Pointer, rows: Rows, grad_at: Strides, y_at: Strides,
    out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """Each input is read once, and the result written."""
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    element = first_element(start_of(row, rows, grad_at, TILE), TILE)
    here = exists(row, rows, TILE)
    grads = elements_of(grad, grad_at, start_of(row, rows, grad_at, TILE), rows.n, element, here, TILE, 0)
    weights = elements_of(y, y_at, start_of(row, rows, y_at, TILE), rows.n, element, here, TILE, 1)
    totals = met(within(products(grads, weights), add, TILE), add, TILE)
    results = gradient(grads, weights, of_rows(totals, TILE))
    target = seen(out, start_of(row, rows, out_at, TILE), element, out_at, TILE, 2)
    store(narrowed(results, out.dtype, TILE), target, here, element, rows.n, TILE)


def given_by(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Problem:
    """The problem of a launch."""
    rows, others = rows_with(grad, out, y)
    return problem(rows, others)


def launch_of_tiles(id: str, tensors: tuple[torch.Tensor, ...], given: Problem, tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: grad, y and out."""
    return bound(id, tile_kernel, tensors, given, tile)
