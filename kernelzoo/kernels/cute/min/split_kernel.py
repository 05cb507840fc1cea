"""Several blocks take rows in parts and leave partial minima, which the last to arrive joins: the kernel of
split_arrival, and with the layout of its threads turned, of columns_split."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.min.words import block_of, identity, last_to_arrive, taken_in, write_rows
from kernelzoo.kernels.cute.tiles import Problem, Tile
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    blocks_of,
    exists,
    first_element,
    first_row,
    index,
    leave_rows,
    lower,
    met,
    one_each,
    running,
    scalars,
    start_of,
    thread_of,
    wait,
    widened,
)  # fmt: skip
from kernelzoo.launch import Launch


@cute.kernel
def split_kernel(
    x: cute.Pointer, out: cute.Pointer, partials: cute.Pointer, arrivals: cute.Pointer, rows: Rows, x_at: Strides,
    out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows."""
    wait(EARLY)
    number, _, _ = cute.arch.block_idx()
    tile = number // parts
    part = number - tile * parts
    row, first = first_row(tile, TILE), first_element(TILE)
    here, start = exists(row, rows, TILE), start_of(row, rows, x_at, TILE)
    kept = running(identity(TILE), TILE)
    begin = index(part, TILE) * span
    for i in cutlass.range(begin, cutlass.min(begin + span, blocks_of(rows, TILE))):
        element = first + i * TILE.block
        taken_in(kept, block_of(x, start, element, rows, x_at, here, TILE), TILE)
    least = met(scalars(kept), lower, TILE)
    # The parts of a row lie side by side, or of neighbouring columns the minima of one part.
    from_row, from_part = (Int64(1), Int64(rows.total)) if TILE.across else (Int64(parts), Int64(1))
    place, (_, along) = Int64(row) * from_row, thread_of(TILE)
    left = one_each(least, partials.dtype)
    leave_rows(left, partials, place + Int64(part) * from_part, from_row, here & (along == 0), TILE)
    if last_to_arrive(arrivals, tile, parts):
        every = running(identity(TILE), TILE)
        for other in cutlass.range(along, parts, TILE.lanes):
            joined(every, partials, place + Int64(other) * from_part, from_row, here, TILE)
        write_rows(met(scalars(every), lower, TILE), out, row, rows, out_at, here, TILE)
        thread, _, _ = cute.arch.thread_idx()
        if thread == 0:
            cute.make_tensor(arrivals + tile, cute.make_layout((1,)))[0] = 0  # for the next launch


@cute.jit
def joined(
    kept: cute.Tensor,
    partials: cute.Pointer,
    start: Int64,
    stride: Int64,
    here: cutlass.Boolean,
    TILE: cutlass.Constexpr,
):
    """What another block has left of each of a thread's rows."""
    if here:
        left = cute.make_tensor(partials + start, cute.make_layout((TILE.rows_each,), stride=(stride,)))
        for r in cutlass.range_constexpr(TILE.rows_each):
            kept[r] = lower(kept[r], widened(left[r], TILE))


def launch_in_parts(id: str, x: torch.Tensor, out: torch.Tensor, given: Problem, tile: Tile) -> Launch:
    """The launch of so many blocks to a tile as fill the device. It leaves its counts of arrivals at zero."""
    plan, count = tiles.cut(given, tile, device_of(x)), tile.count(given.total)
    room = x.new_empty(given.total * plan.parts)
    arrivals = x.new_zeros(count, dtype=torch.int32)
    blocks = count * plan.parts
    return bound(id, split_kernel, (x, out), given, tile, (), plan, (room, arrivals), blocks)
