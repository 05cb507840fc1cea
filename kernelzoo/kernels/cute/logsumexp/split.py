import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_in_parts
from kernelzoo.kernels.cute.logsumexp.rows import compute_logsumexp
from kernelzoo.kernels.cute.min.device_functions import last_to_arrive, write_rows
from kernelzoo.kernels.cute.states import make_states, merge_partial_states, reduce_states, update_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def split_kernel(arguments, parts, span, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    number = dev.block_index(EARLY)
    rows, (x, out), (left_tops, left_totals, arrivals) = arguments.rows, arguments.tensors, arguments.rooms
    tile, part = dev.tile_and_part(number, parts)
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.part_range(part, span, rows, TILE)
    tops, totals = make_states(TILE)
    update_states(tops, totals, tXgX, tXcX, begin, end, rows, TILE)
    row_tops, row_totals = reduce_states(tops, totals, TILE)
    dev.store_partial(row_tops, left_tops, row, part, parts, rows, TILE)
    dev.store_partial(row_totals, left_totals, row, part, parts, rows, TILE)
    if last_to_arrive(arrivals, tile, parts):
        every_top, every_total = make_states(TILE)
        merge_partial_states(every_top, every_total, left_tops, left_totals, row, parts, rows, TILE)
        write_rows(compute_logsumexp(*reduce_states(every_top, every_total, TILE)), out, row, rows, TILE)


@register("cute", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row or a strip of columns. The last to finish merges their states: one launch."""
    given = tiles.make_problem(x, out)
    left = [tiles.wide_dtype(x.dtype)] * 2
    return launch_in_parts("cute/logsumexp/split", [split_kernel], (x, out), given, tiles.blockwise_tile(given), left)
