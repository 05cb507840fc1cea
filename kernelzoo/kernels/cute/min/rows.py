"""A block takes whole rows, several short ones or one, and reduces each of its blocks of a row to one value at once."""

import cutlass
import torch
from cutlass import const_expr, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.device_functions import block_of, identity, taken_in, write_rows
from kernelzoo.kernels.cute.min.tiles import plain, row_tile
from kernelzoo.kernels.cute.tiles import problem
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def rows_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.begin(EARLY)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    start = dev.start_of(row, rows, x_at, TILE)
    kept = dev.running(identity(TILE), TILE)
    for i in cutlass.range(dev.blocks_of(rows, TILE)):
        values = block_of(x, start, first + i * TILE.block, rows, x_at, here, TILE)
        least = dev.reduced(values, dev.lower, TILE)
        taken_in(kept, [least] if TILE.across else [[value] for value in least], TILE)
        if const_expr(TILE.meeting > 1):
            cute.arch.sync_threads()  # before the room is written again
    write_rows(dev.scalars(kept), out, row, rows, out_at, here, TILE)


@register("cute", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    given = problem(x, out)
    return bound("cute/min/rows", rows_kernel, (x, out), given, row_tile(given))
