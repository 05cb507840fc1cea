"""Blocks of rows, of which each thread keeps a running minimum until they have ended: the kernel of
rows_deferred_block, and with the layout of its threads turned, of columns."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.words import block_of, identity, taken_in, write_rows
from kernelzoo.kernels.cute.tiles import Problem, Tile
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    blocks_of,
    exists,
    first_element,
    first_row,
    lower,
    met,
    running,
    scalars,
    start_of,
    wait,
)  # fmt: skip
from kernelzoo.launch import Launch


@cute.kernel
def rows_deferred_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, x_at, TILE), TILE)
    here, start = exists(row, rows, TILE), start_of(row, rows, x_at, TILE)
    kept = running(identity(TILE), TILE)
    for i in cutlass.range(blocks_of(rows, TILE)):
        taken_in(kept, block_of(x, start, first + i * TILE.block, rows, x_at, here, TILE), TILE)
    write_rows(met(scalars(kept), lower, TILE), out, row, rows, out_at, here, TILE)


def launch_deferred(id: str, x: torch.Tensor, out: torch.Tensor, given: Problem, tile: Tile) -> Launch:
    """The launch of rows_deferred_kernel over a problem's tiles."""
    return bound(id, rows_deferred_kernel, (x, out), given, tile)
