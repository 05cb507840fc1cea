"""Several blocks to one row: a launch that leaves (maximum, sum) states, and one that merges them and writes."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound, device_of
from kernelzoo.kernels.cute.softmax.device_functions import online_update, softmax_of
from kernelzoo.kernels.cute.states import make_states, merge_parts, row_states
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@cute.kernel
def partials_kernel(
    x: cute.Pointer, out: cute.Pointer, tops: cute.Pointer, totals: cute.Pointer, rows: Rows, x_at: Strides,
    out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has span blocks of a tile's rows, of which it leaves one pair to each row."""
    number = dev.block_index(EARLY)
    tile, part = dev.tile_and_part(number, parts)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    top, total = make_states(TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        element = first + i * TILE.block
        tXgX = dev.make_thread_tensor(x, start, element, x_at, TILE, 0)
        online_update(top, total, dev.load_tile(tXgX, here, element, rows.n, -float("inf"), TILE), TILE)
    row_tops, row_totals = row_states(top, total, TILE)
    dev.store_partial(row_tops, tops, row, part, parts, rows, here, TILE)
    dev.store_partial(row_totals, totals, row, part, parts, rows, here, TILE)


@cute.kernel
def write_kernel(
    x: cute.Pointer, out: cute.Pointer, tops: cute.Pointer, totals: cute.Pointer, rows: Rows, x_at: Strides,
    out_at: Strides, parts: cutlass.Int32, span: cutlass.Int32, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """Every block merges all pairs of its rows in the same order, so that all agree to the bit."""
    number = dev.block_index(EARLY)
    tile, part = dev.tile_and_part(number, parts)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    top, total = make_states(TILE)
    merge_parts(top, total, tops, totals, row, parts, rows, here, TILE)
    row_tops, row_totals = row_states(top, total, TILE)
    scales = [1.0 / total for total in row_totals]
    x_start, out_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, out_at, TILE)
    begin, end = dev.part_range(part, span, rows, TILE)
    for i in cutlass.range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        element = first + (begin + end - 1 - i) * TILE.block
        tXgX = dev.make_thread_tensor(x, x_start, element, x_at, TILE, 0)
        tXgO = dev.make_thread_tensor(out, out_start, element, out_at, TILE, 1)
        values = dev.load_tile(tXgX, here, element, rows.n, -float("inf"), TILE)
        values = dev.map_rows(softmax_of, values, TILE, row_tops, scales)
        dev.store_tile(values, tXgO, here, element, rows.n, TILE)


@register("cute", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row, or strip of columns, leave (max, sum) states; a second launch merges and writes."""
    id, given = "cute/softmax/split_two_launches", tiles.problem(x, out)
    tile = tiles.block(given)
    plan, wide = tiles.cut(given, tile, device_of(x)), tiles.wide_dtype(x.dtype)
    pairs = [x.new_empty(given.total * plan.parts, dtype=wide) for _ in range(2)]
    blocks = tile.count(given.total) * plan.parts
    leave, write = (
        bound(id, kernel, (x, out), given, tile, (), plan, pairs, blocks) for kernel in (partials_kernel, write_kernel)
    )
    return sequence(leave, write)
