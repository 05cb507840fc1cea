"""A tile of whole rows to a block, which holds them in registers: one kernel, of which fused, multi_row_tile and
columns have each a tile."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min_backward.words import counted, equal_to, given_to, of_each, shares_of
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
    x: cute.Pointer, y: cute.Pointer, grad: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, y_at: Strides,
    grad_at: Strides, out_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """One read, one write."""
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    element = first_element(start_of(row, rows, x_at, TILE), TILE)
    here = exists(row, rows, TILE)
    least = of_each(y, y_at, row, rows, here, TILE)
    equal = equal_to(least, x, x_at, start_of(row, rows, x_at, TILE), rows.n, element, here, TILE)
    counts = met(within(counted(equal), add, TILE), add, TILE)
    results = given_to(equal, shares_of(of_each(grad, grad_at, row, rows, here, TILE), counts), TILE)
    target = seen(out, start_of(row, rows, out_at, TILE), element, out_at, TILE, 3)
    store(narrowed(results, out.dtype, TILE), target, here, element, rows.n, TILE)


def given_by(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Problem:
    """The problem of a launch."""
    rows, others = rows_with(x, out, y, grad)
    return problem(rows, others)


def launch_of_tiles(id: str, tensors: tuple[torch.Tensor, ...], given: Problem, tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: x, y, grad and out."""
    return bound(id, tile_kernel, tensors, given, tile)
