import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.cumsum.rows import write_sums
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.sum.rows import add_up
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.kernel
def parts_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, _), (left,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.part_range(part, span, rows, TILE)
    sums = add_up(tXgX, tXcX, begin, end, rows, TILE)
    dev.store_partial(dev.list_values(sums), left, row, part, parts, rows, TILE)


@cute.kernel
def write_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, out), (left,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    begin, end = dev.part_range(part, span, rows, TILE)
    totals = fn.sum_first_parts(left, dev.first_row(tile, TILE), part, parts, rows, TILE)
    write_sums(totals, tXgX, tXgO, tXcX, begin, end, rows, TILE)


@register("cute", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns, and store sums. A second launch reads again and writes."""
    x = bool_as_uint8(x)
    given = tiles.make_problem(x, out)
    both, left = (parts_kernel, write_kernel), [tiles.wide_dtype(out.dtype)]
    return launch_in_parts("cute/cumsum/split", both, (x, out), given, tiles.blockwise_tile(given), left)
