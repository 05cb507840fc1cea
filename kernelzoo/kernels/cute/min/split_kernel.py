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
    exists,
    first_element,
    first_row,
    leave_rows,
    left_at,
    lower,
    met,
    one_each,
    running,
    scalars,
    share_of,
    start_of,
    stretch_of,
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
    tile, part = share_of(number, parts)
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, x_at, TILE), TILE)
    here, start = exists(row, rows, TILE), start_of(row, rows, x_at, TILE)
    _, along = thread_of(TILE)
    kept = running(identity(TILE), TILE)
    begin, end = stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        taken_in(kept, block_of(x, start, first + i * TILE.block, rows, x_at, here, TILE), TILE)
    least = one_each(met(scalars(kept), lower, TILE), partials.dtype)
    leave_rows(least, partials, *left_at(row, part, parts, rows, TILE), here & (along == 0), TILE)
    if last_to_arrive(arrivals, tile, parts):
        every = running(identity(TILE), TILE)
        for other in cutlass.range(along, parts, TILE.lanes):
            joined(every, partials, *left_at(row, other, parts, rows, TILE), here, TILE)
        write_rows(met(scalars(every), lower, TILE), out, row, rows, out_at, here, TILE)
        thread, _, _ = cute.arch.thread_idx()
        if thread == 0:
            cute.make_tensor(arrivals + tile, cute.make_layout((1,)))[0] = 0  # for the next launch


@cute.jit
def joined(
    kept: cute.Tensor, partials: cute.Pointer, start: Int64, stride: Int64, here: cutlass.Boolean,
    TILE: cutlass.Constexpr,
):  # fmt: skip
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
