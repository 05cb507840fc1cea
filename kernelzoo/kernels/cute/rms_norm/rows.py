"""A block adds up the squares of several rows, or of one, and scales them: from registers, or block by block."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def normed(x, weight, scale):
    """An element of the result."""
    return x * scale * weight


@cute.kernel
def rms_norm_kernel(
    x: cute.Pointer, weight: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, weight_at: Strides,
    out_at: Strides, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, out_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, out_at, TILE)
    blocks = dev.num_blocks(rows, TILE)
    held = fn.hold(TILE, fn.load, x, x_start, first, x_at, rows, here, TILE)
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        values = fn.held_or(held, fn.load, x, x_start, first + i * TILE.block, x_at, rows, here, TILE)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, values, TILE), TILE)
    scales = [fn.inverse_root(fn.mean(total, rows.n), EPS) for total in fn.row_sums(squares, TILE)]
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        values = fn.held_or(held, fn.load, x, x_start, element, x_at, rows, here, TILE)
        weights = fn.load(weight, Int64(0), element, weight_at, rows, here, TILE, 1)
        result = fn.map_tiles(normed, (values, weights), TILE, scales)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 2)


@register("cute", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Rows are read once, into registers; those that no block holds again, from cache, to write."""
    given = tiles.problem(x, out, weight)
    return bound("cute/rms_norm/rows", rms_norm_kernel, (x, weight, out), given, tiles.read_once(given), (eps,))
