import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import identity, online_update, stored_identity, write_rows
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.kernel
def rows_deferred_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    kept = dev.make_accumulator(identity(TILE), TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        online_update(kept, dev.load(tXgX, tXcX, i, rows, TILE, stored_identity(TILE)), TILE)
    write_rows(dev.block_reduce(dev.list_values(kept), dev.minimum, TILE), out, row, rows, TILE)


@register("cute", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block reduces rows or a strip of columns. Threads keep running minima, and merge them once, at the end."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    given = tiles.make_problem(x, out)
    tile = tiles.blockwise_tile(given, min_elements=tiles.READ_ELEMENTS)
    return bind("cute/min/rows_deferred", rows_deferred_kernel, (x, out), given, tile)
