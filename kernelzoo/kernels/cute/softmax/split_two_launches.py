import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.softmax.device_functions import online_update, softmax_of
from kernelzoo.kernels.cute.states import make_states, merge_partial_states, reduce_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def partials_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block reads ``span`` blocks of a tile's rows, and stores one (max, sum) state per row."""
    number = dev.block_index(EARLY)
    rows, (x, _), (tops, totals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    top, total = make_states(TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        online_update(top, total, dev.load(tXgX, tXcX, i, rows, TILE, -float("inf")), TILE)
    row_tops, row_totals = reduce_states(top, total, TILE)
    dev.store_partial(row_tops, tops, row, part, parts, rows, TILE)
    dev.store_partial(row_totals, totals, row, part, parts, rows, TILE)


@cute.kernel
def write_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """Each thread block merges all states of its rows, in the same order as all others. So all get the same bits."""
    number = dev.block_index(EARLY)
    rows, (x, out), (tops, totals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    top, total = make_states(TILE)
    merge_partial_states(top, total, tops, totals, row, parts, rows, TILE)
    row_tops, row_totals = reduce_states(top, total, TILE)
    scales = [1.0 / total for total in row_totals]
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards, because the elements read last are the most likely to be cached.
        last = begin + end - 1 - i
        values = dev.load(tXgX, tXcX, last, rows, TILE, -float("inf"))
        values = dev.map_rows(softmax_of, values, TILE, row_tops, scales)
        dev.store(values, tXgO, tXcX, last, rows, TILE)


@register("cute", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns, and store states. A second launch merges them and writes."""
    id, given = "cute/softmax/split_two_launches", tiles.make_problem(x, out)
    both, left = (partials_kernel, write_kernel), [tiles.wide_dtype(x.dtype)] * 2
    return launch_in_parts(id, both, (x, out), given, tiles.long_row_tile(given), left)
