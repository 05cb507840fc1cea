"""A block adds several rows, or one block by block, to others, and their squares up, and reads the sums to write."""

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


@cute.kernel
def add_rms_norm_kernel(
    x: cute.Pointer, residual: cute.Pointer, weight: cute.Pointer, out: cute.Pointer, total: cute.Pointer, rows: Rows,
    x_at: Strides, residual_at: Strides, weight_at: Strides, out_at: Strides, total_at: Strides,
    EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, residual_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, residual_at, TILE)
    out_start, total_start = dev.row_offset(row, rows, out_at, TILE), dev.row_offset(row, rows, total_at, TILE)
    blocks = dev.num_blocks(rows, TILE)
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        values = fn.load(x, x_start, element, x_at, rows, here, TILE)
        others = fn.load(residual, residual_start, element, residual_at, rows, here, TILE, 1)
        sums = fn.map_tiles(dev.add, (values, others), TILE)
        fn.store(sums, total, total_start, element, total_at, rows, here, TILE, 4)
        rounded = [[dev.to_acc(value.to(total.dtype), TILE) for value in vector] for vector in sums]
        fn.accumulate_sums(squares, dev.map_rows(fn.square, rounded, TILE), TILE)
    scales = [fn.inverse_root(fn.mean(one, rows.n), EPS) for one in fn.row_sums(squares, TILE)]
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        values = fn.load(total, total_start, element, total_at, rows, here, TILE, 4)  # by the thread that stored it
        weights = fn.load(weight, Int64(0), element, weight_at, rows, here, TILE, 2)
        result = fn.map_tiles(normed, (values, weights), TILE, scales)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 3)


@register("cute", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """Sums are written, and their squares added up in each thread; then they are read again, from cache."""
    id, tensors = "cute/add_rms_norm/rows", (x, residual, weight, out, total)
    given = tiles.problem(x, total, residual, weight, out)
    return bound(id, add_rms_norm_kernel, tensors, given, tiles.plain(given, 2), (eps,))
