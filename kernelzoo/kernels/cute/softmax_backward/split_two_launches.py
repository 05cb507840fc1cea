import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.softmax_backward.device_functions import grad_times_y, input_gradient, load_inputs
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def partials_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block reads ``span`` blocks of a tile's rows, and stores one sum per row."""
    number = dev.block_index(EARLY)
    rows, (grad, y, _), (sums,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    tXcX, tXgG, tXgY = dev.partition(tile, rows, TILE, grad, y)
    mine = fn.make_sums(TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        both = load_inputs(tXgG, tXgY, tXcX, i, rows, TILE)
        fn.accumulate_sums(mine, grad_times_y(both, TILE), TILE)
    dev.store_partial(fn.row_sums(mine, TILE), sums, dev.first_row(tile, TILE), part, parts, rows, TILE)


@cute.kernel
def write_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block adds up all sums of its rows, in the same order as all others. So all get the same bits."""
    number = dev.block_index(EARLY)
    rows, (grad, y, out), (sums,) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    tXcX, tXgG, tXgY, tXgO = dev.partition(tile, rows, TILE, grad, y, out)
    totals = dev.list_values(fn.sum_first_parts(sums, dev.first_row(tile, TILE), parts, parts, rows, TILE))
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards, because the elements read last are the most likely to be cached.
        last = begin + end - 1 - i
        both = load_inputs(tXgG, tXgY, tXcX, last, rows, TILE)
        dev.store(fn.map_tiles(input_gradient, both, TILE, totals), tXgO, tXcX, last, rows, TILE)


@register("cute", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns, and store sums. A second launch adds them up and writes."""
    id, given = "cute/softmax_backward/split_two_launches", tiles.make_problem(grad, out, y)
    both, left = (partials_kernel, write_kernel), [tiles.wide_dtype(grad.dtype)]
    return launch_in_parts(id, both, (grad, y, out), given, tiles.long_row_tile(given, 2), left)
