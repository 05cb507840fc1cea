import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.cumsum.device_functions import scan_tile
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.sum.rows import summed_type
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


@cute.jit
def write_sums(totals, tXgX, tXgO, tXcX, begin, end, rows, TILE: cutlass.Constexpr):
    """Write a thread's running sums of blocks begin to end - 1, and update ``totals``, each row's sum so far."""
    # Shared memory for the warps' sums, for each of a thread's vectors.
    layout = cute.make_layout((TILE.rows_per_thread * TILE.each, TILE.threads_across_rows, TILE.row_warps))
    room = dev.allocate_shared(totals.element_type, layout, TILE)
    for i in cutlass.range(begin, end):
        values = dev.map_rows(totals.element_type, dev.load(tXgX, tXcX, i, rows, TILE, 0), TILE)
        dev.store(scan_tile(totals, values, room, TILE), tXgO, tXcX, i, rows, TILE)


@cute.kernel
def cumsum_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    begin, end = dev.row_block_range(rows, TILE)
    totals = dev.make_accumulator(0, TILE, summed_type(TILE))
    write_sums(totals, tXgX, tXgO, tXcX, begin, end, rows, TILE)


@register("cute", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block scans a row tile by tile. Threads add up vectors in order, then scan the vectors' sums in a tree."""
    x = bool_as_uint8(x)
    given = tiles.make_problem(x, out)
    return bind("cute/cumsum/rows", cumsum_kernel, (x, out), given, tiles.blockwise_tile(given))
