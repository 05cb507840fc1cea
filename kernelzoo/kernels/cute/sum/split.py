import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.min.device_functions import last_to_arrive, write_rows
from kernelzoo.kernels.cute.sum.rows import add_up
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.kernel
def split_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, out), (left, arrivals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.part_range(part, span, rows, TILE)
    sums = add_up(tXgX, tXcX, begin, end, rows, TILE)
    dev.store_partial(dev.list_values(sums), left, row, part, parts, rows, TILE)
    if last_to_arrive(arrivals, tile, parts):
        every = fn.sum_first_parts(left, row, parts, parts, rows, TILE)
        write_rows(dev.list_values(every), out, row, rows, TILE)


@register("cute", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns. The last to finish adds up their sums: one launch."""
    x = bool_as_uint8(x)
    given = tiles.make_problem(x, out)
    left = [tiles.wide_dtype(out.dtype)]
    return launch_in_parts("cute/sum/split", [split_kernel], (x, out), given, tiles.blockwise_tile(given), left)
