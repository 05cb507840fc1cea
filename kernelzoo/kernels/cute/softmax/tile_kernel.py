"""A tile of whole rows to a block, which holds them in registers: one kernel, of which fused, multi_row_tile and
columns have each a tile."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.words import exponential, zero_if_empty
from kernelzoo.kernels.cute.tiles import Problem, Tile
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    add,
    exists,
    first_element,
    first_row,
    higher,
    loaded,
    met,
    narrowed,
    of_rows,
    seen,
    start_of,
    store,
    wait,
    wide,
    within,
)  # fmt: skip
from kernelzoo.launch import Launch


@cute.kernel
def tile_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """One read, one write."""
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    element = first_element(start_of(row, rows, x_at, TILE), TILE)
    here = exists(row, rows, TILE)
    source = seen(x, start_of(row, rows, x_at, TILE), element, x_at, TILE, 0)
    target = seen(out, start_of(row, rows, out_at, TILE), element, out_at, TILE, 1)
    values = wide(loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
    tops = of_rows([zero_if_empty(top) for top in met(within(values, higher, TILE), higher, TILE)], TILE)
    values = [[exponential(value - top) for value, top in zip(vector, tops, strict=True)] for vector in values]
    scales = of_rows([1.0 / total for total in met(within(values, add, TILE), add, TILE)], TILE)
    values = [[value * scale for value, scale in zip(vector, scales, strict=True)] for vector in values]
    store(narrowed(values, out.dtype, TILE), target, here, element, rows.n, TILE)


def launch_of_tiles(id: str, x: torch.Tensor, out: torch.Tensor, given: Problem, tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles."""
    return bound(id, tile_kernel, (x, out), given, tile)
