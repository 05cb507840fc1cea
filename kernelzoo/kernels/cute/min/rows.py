import cutlass
import torch
from cutlass import const_expr, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import identity, stored_identity, write_rows
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.kernel
def rows_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    kept = dev.make_accumulator(identity(TILE), TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        values = dev.load(tXgX, tXcX, i, rows, TILE, stored_identity(TILE))
        dev.accumulate(kept, dev.row_reduce(values, dev.minimum, TILE), dev.minimum)
        if const_expr(TILE.row_warps > 1):
            cute.arch.sync_threads()  # before shared memory is overwritten
    write_rows(dev.list_values(kept), out, row, rows, TILE)


@register("cute", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A thread block reduces each piece of a row to a scalar before it reads the next piece."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    given = tiles.make_problem(x, out)
    tile = tiles.blockwise_tile(given, min_elements=tiles.READ_ELEMENTS)
    return bind("cute/min/rows", rows_kernel, (x, out), given, tile)
