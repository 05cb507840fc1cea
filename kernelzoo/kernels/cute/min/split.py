import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.min import device_functions as own
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.kernel
def split_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, out), (partials, arrivals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    kept = dev.make_accumulator(own.identity(TILE), TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        own.online_update(kept, dev.load(tXgX, tXcX, i, rows, TILE, own.stored_identity(TILE)), TILE)
    least = dev.block_reduce(dev.list_values(kept), dev.minimum, TILE)
    dev.store_partial(least, partials, row, part, parts, rows, TILE)
    if own.last_to_arrive(arrivals, tile, parts):
        every = dev.make_accumulator(own.identity(TILE), TILE)
        for other in cutlass.range(dev.thread_coords(TILE)[1], parts, TILE.lanes):
            place, apart = dev.partial_offset(row, other, parts, rows, TILE)
            merge_minima(every, partials, place, apart, dev.row_exists(row, rows, TILE), TILE)
        own.write_rows(dev.block_reduce(dev.list_values(every), dev.minimum, TILE), out, row, rows, TILE)


@cute.jit
def merge_minima(accumulator, partials, start: Int64, stride: Int64, exists: cutlass.Boolean, TILE: cutlass.Constexpr):
    """Merge the minima that another block stored into a thread's own minima, if the rows exist."""
    if exists:
        left = cute.make_tensor(partials + start, cute.make_layout((TILE.rows_per_thread,), stride=(stride,)))
        for r in cutlass.range_constexpr(TILE.rows_per_thread):
            accumulator[r] = dev.minimum(accumulator[r], dev.to_acc(left[r], TILE))


@register("cute", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns. The last to finish merges their minima: one launch."""
    x, out = bool_as_uint8(x), bool_as_uint8(out)
    given = tiles.make_problem(x, out)
    return launch_in_parts("cute/min/split", [split_kernel], (x, out), given, tiles.long_row_tile(given), [x.dtype])
