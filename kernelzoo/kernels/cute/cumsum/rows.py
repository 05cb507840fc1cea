"""A block takes several rows, or one block by block: sums within a block, plus those of the blocks before, in order."""

import cutlass
import torch
from cutlass import cute, range_constexpr

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.sum.rows import summed_type
from kernelzoo.kernels.shared.minimum import plain
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.jit
def sums_before(room: cute.Tensor, mine: cute.Tensor, TILE: cutlass.Constexpr):
    """Of each of a thread's rows, what the threads before it have together, and all of them: by a scan in shared
    memory (Hillis and Steele, CACM 29, 1986)."""
    place, along = dev.thread_coords(TILE)
    cute.autovec_copy(mine, room[None, place, along])
    cute.arch.sync_threads()
    for bit in range_constexpr(TILE.lanes.bit_length() - 1):
        if along >= 1 << bit:
            for r in range_constexpr(TILE.rows_each):
                mine[r] = room[r, place, along - (1 << bit)] + mine[r]
        cute.arch.sync_threads()
        cute.autovec_copy(mine, room[None, place, along])
        cute.arch.sync_threads()
    before, everything = cute.make_fragment_like(mine), cute.make_fragment_like(mine)
    before.fill(0)
    if along > 0:
        cute.autovec_copy(room[None, place, along - 1], before)
    cute.autovec_copy(room[None, place, TILE.lanes - 1], everything)
    cute.arch.sync_threads()  # before the room is written again
    return before, everything


def prefixes(values, TILE):
    """Sums of each of a thread's elements of one vector and those before it, of each of its rows; and all together."""
    if TILE.across:
        return values, values
    sums = [values[0]]
    for value in values[1:]:
        sums.append(sums[-1] + value)
    return sums, sums[-1:]


@cute.kernel
def cumsum_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, out_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, out_at, TILE)
    kind = summed_type(TILE)
    layout = cute.make_layout((TILE.rows_each, TILE.places, TILE.lanes))
    room = cute.make_tensor(cute.arch.alloc_smem(kind, cute.size(layout)), layout)
    totals = dev.make_accumulator(0, TILE, kind)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        element = first + i * TILE.block
        values = dev.map_rows(kind, fn.load(x, x_start, element, x_at, rows, here, TILE, instead=0), TILE)
        result = []
        for vector in values:
            sums, mine = prefixes(vector, TILE)
            before, everything = sums_before(room, dev.make_fragment(mine, kind), TILE)
            starts = [total + one for total, one in zip(dev.registers(totals), dev.registers(before), strict=True)]
            result.append([a + b for a, b in zip(dev.broadcast_rows(starts, TILE), sums, strict=True)])
            dev.accumulate(totals, dev.registers(everything), dev.add)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 1)


@register("cute", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Sums of threads are a scan, a tree of additions; sums of their vectors together are added up in order."""
    x = plain(x)
    given = tiles.problem(x, out)
    return bound("cute/cumsum/rows", cumsum_kernel, (x, out), given, tiles.plain(given))
