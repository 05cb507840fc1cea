"""A block adds several rows, or one, to others, and scales the sums: from registers, or block by block."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.rms_norm.rows import normed
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def add_tiles(tensors, starts, element, strides, rows, here, TILE):
    """A thread's elements of a block of two tensors, added up, as they are written to the third."""
    (x, residual, total), (x_at, residual_at, total_at) = tensors, strides
    values = fn.load(x, starts[0], element, x_at, rows, here, TILE)
    others = fn.load(residual, starts[1], element, residual_at, rows, here, TILE, 1)
    sums = fn.map_tiles(dev.add, (values, others), TILE)
    fn.store(sums, total, starts[2], element, total_at, rows, here, TILE, 4)
    return [[dev.to_acc(value.to(total.dtype), TILE) for value in vector] for vector in sums]


@cute.kernel
def add_rms_norm_kernel(
    x: cute.Pointer, residual: cute.Pointer, weight: cute.Pointer, out: cute.Pointer, total: cute.Pointer, rows: Rows,
    x_at: Strides, residual_at: Strides, weight_at: Strides, out_at: Strides, total_at: Strides,
    EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    tensors, strides = (x, residual, total), (x_at, residual_at, total_at)
    starts, out_start = fn.row_offsets(row, rows, strides, TILE), dev.row_offset(row, rows, out_at, TILE)
    blocks = dev.num_blocks(rows, TILE)
    held = fn.hold(TILE, add_tiles, tensors, starts, first, strides, rows, here, TILE)
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        sums = fn.held_or(held, add_tiles, tensors, starts, element, strides, rows, here, TILE)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, sums, TILE), TILE)
    scales = [fn.inverse_root(fn.mean(one, rows.n), EPS) for one in fn.row_sums(squares, TILE)]
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        # By the thread that wrote it.
        values = fn.held_or(held, fn.load, total, starts[2], element, total_at, rows, here, TILE, 4)
        weights = fn.load(weight, Int64(0), element, weight_at, rows, here, TILE, 2)
        result = fn.map_tiles(normed, (values, weights), TILE, scales)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 3)


@register("cute", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """Rows are read once, into registers; sums that no block holds again, from cache, to be scaled."""
    id, tensors = "cute/add_rms_norm/rows", (x, residual, weight, out, total)
    given = tiles.problem(x, total, residual, weight, out)
    return bound(id, add_rms_norm_kernel, tensors, given, tiles.read_once(given), (eps,))
