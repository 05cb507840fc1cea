import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.argmin.rows import make_minima, row_minima, update_minima, update_minimum
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.min.device_functions import last_to_arrive, write_rows
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def split_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, out), (left, left_places, arrivals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.part_range(part, span, rows, TILE)
    least, found = make_minima(TILE)
    update_minima(least, found, tXgX, tXcX, begin, end, rows, TILE)
    row_least, places = row_minima(least, found, TILE)
    dev.store_partial(row_least, left, row, part, parts, rows, TILE)
    dev.store_partial(places, left_places, row, part, parts, rows, TILE)
    if last_to_arrive(arrivals, tile, parts):
        every, every_place = make_minima(TILE)
        merge_partial_minima(every, every_place, left, left_places, row, parts, rows, TILE)
        write_rows(row_minima(every, every_place, TILE)[1], out, row, rows, TILE)


@cute.jit
def merge_partial_minima(least, found, partials, partial_indices, row, parts, rows, TILE: cutlass.Constexpr):
    """Update this thread's minima and indices, in order, with those that the blocks of all parts stored."""
    here = dev.row_exists(row, rows, TILE)
    for other in cutlass.range(dev.thread_coords(TILE)[1], parts, TILE.lanes):
        place, apart = dev.partial_offset(row, other, parts, rows, TILE)
        values = dev.list_values(dev.load_rows(partials, place, apart, here, TILE))
        indices = dev.list_values(dev.load_rows(partial_indices, place, apart, here, TILE))
        for r in cutlass.range_constexpr(TILE.rows_per_thread):
            update_minimum(least, found, r, dev.to_acc(values[r], TILE), [values[r]], [indices[r]])


@register("cute", "argmin", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns. The last to finish merges their results: one launch."""
    given = tiles.make_problem(x, out)
    left = [x.dtype, torch.int64]
    return launch_in_parts("cute/argmin/split", [split_kernel], (x, out), given, tiles.blockwise_tile(given), left)
