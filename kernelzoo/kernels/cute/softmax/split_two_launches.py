"""Several blocks to one row: a launch that leaves (maximum, sum) pairs, and one that merges them and writes."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.softmax.device_functions import lowest, merged, rescaled, scaled, taken_in
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@cute.kernel
def leave_kernel(
    x: cute.Pointer, out: cute.Pointer, tops: cute.Pointer, totals: cute.Pointer, rows: Rows, x_at: Strides,
    out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows, of which it leaves one pair to each row."""
    number = dev.begin(EARLY)
    tile, part = dev.share_of(number, parts)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    start = dev.start_of(row, rows, x_at, TILE)
    top, total = dev.running(lowest(TILE), TILE), dev.running(0, TILE)
    begin, end = dev.stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        element = first + i * TILE.block
        source = dev.seen(x, start, element, x_at, TILE, 0)
        taken_in(top, total, dev.wide(dev.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE), TILE)
    row_tops = dev.met(dev.scalars(top), dev.higher, TILE)
    row_totals = dev.met(rescaled(dev.scalars(top), dev.scalars(total), row_tops), dev.add, TILE)
    dev.leave_part(row_tops, tops, row, part, parts, rows, here, TILE)
    dev.leave_part(row_totals, totals, row, part, parts, rows, here, TILE)


@cute.kernel
def write_kernel(
    x: cute.Pointer, out: cute.Pointer, tops: cute.Pointer, totals: cute.Pointer, rows: Rows, x_at: Strides,
    out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """Every block merges all pairs of its rows in the same order, so that all agree to the bit."""
    number = dev.begin(EARLY)
    tile, part = dev.share_of(number, parts)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    top, total = dev.running(lowest(TILE), TILE), dev.running(0, TILE)
    for other in cutlass.range(dev.thread_of(TILE)[1], parts, TILE.lanes):
        place, apart = dev.left_at(row, other, parts, rows, TILE)
        merge(top, total, tops, totals, place, apart, here, TILE)
    row_tops = dev.met(dev.scalars(top), dev.higher, TILE)
    row_totals = dev.met(rescaled(dev.scalars(top), dev.scalars(total), row_tops), dev.add, TILE)
    every_top, every_scale = dev.of_rows(row_tops, TILE), dev.of_rows([1.0 / value for value in row_totals], TILE)
    x_start, out_start = dev.start_of(row, rows, x_at, TILE), dev.start_of(row, rows, out_at, TILE)
    begin, end = dev.stretch_of(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        element = first + (begin + end - 1 - i) * TILE.block
        source = dev.seen(x, x_start, element, x_at, TILE, 0)
        target = dev.seen(out, out_start, element, out_at, TILE, 1)
        values = dev.wide(dev.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
        results = scaled(values, every_top, every_scale)
        dev.write(results, target, here, element, rows.n, TILE)


@cute.jit
def merge(
    top: cute.Tensor, total: cute.Tensor, tops: cute.Pointer, totals: cute.Pointer, place: Int64, apart: Int64,
    here: cutlass.Boolean, TILE: cutlass.Constexpr,
):  # fmt: skip
    """The running pairs of a thread's rows with those that a block has left."""
    if here:
        layout = cute.make_layout((TILE.rows_each,), stride=(apart,))
        other_top, other_total = cute.make_tensor(tops + place, layout), cute.make_tensor(totals + place, layout)
        for r in cutlass.range_constexpr(TILE.rows_each):
            risen = dev.higher(top[r], other_top[r])
            total[r] = merged(top[r], total[r], risen) + merged(other_top[r], other_total[r], risen)
            top[r] = risen


@register("cute", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row, or strip of columns, leave pairs (max, sum); a second launch merges and writes."""
    id, given = "cute/softmax/split_two_launches", tiles.problem(x, out)
    tile = tiles.block(given)
    plan, wide = tiles.cut(given, tile, device_of(x)), tiles.wide_dtype(x.dtype)
    pairs = [x.new_empty(given.total * plan.parts, dtype=wide) for _ in range(2)]
    blocks = tile.count(given.total) * plan.parts
    leave, write = (
        bound(id, kernel, (x, out), given, tile, (), plan, pairs, blocks) for kernel in (leave_kernel, write_kernel)
    )
    return sequence(leave, write)
