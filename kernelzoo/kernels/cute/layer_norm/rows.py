"""A block takes means and variances of several rows, or of one, and scales: from registers, or block by block."""

from typing import Any

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


@cute.jit
def row_means(
    x: cute.Pointer, start: Int64, first, at: Strides, rows: Rows, here: cutlass.Boolean, held: Any,
    TILE: cutlass.Constexpr,
):  # fmt: skip
    """The mean of each of a thread's rows, in registers."""
    totals = fn.make_sums(TILE)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        values = fn.held_or(held, fn.load, x, start, first + i * TILE.block, at, rows, here, TILE)
        fn.accumulate_sums(totals, values, TILE)
    return dev.make_fragment([fn.mean(total, rows.n) for total in fn.row_sums(totals, TILE)], dev.acc_type(TILE))


def distance(x, inside, mean):
    """How far an element is from its row's mean, 0 past the row's end."""
    return dev.select(inside, x - mean, type(x)(0.0))


def load_distances(x, start, element, at, rows, here, held, TILE, means):
    """How far a thread's elements of a block are from their rows' means."""
    values = fn.held_or(held, fn.load, x, start, element, at, rows, here, TILE)
    return fn.map_tiles(distance, (values, fn.inside(element, rows, TILE)), TILE, means)


def normed(away, weight, bias, scale):
    """An element of the result."""
    return away * scale * weight + bias


@cute.kernel
def layer_norm_kernel(
    x: cute.Pointer, weight: cute.Pointer, bias: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides,
    weight_at: Strides, bias_at: Strides, out_at: Strides,
    EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, out_start = dev.row_offset(row, rows, x_at, TILE), dev.row_offset(row, rows, out_at, TILE)
    blocks = dev.num_blocks(rows, TILE)
    held = fn.hold(TILE, fn.load, x, x_start, first, x_at, rows, here, TILE)
    means = dev.registers(row_means(x, x_start, first, x_at, rows, here, held, TILE))
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        away = load_distances(x, x_start, element, x_at, rows, here, held, TILE, means)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, away, TILE), TILE)
    scales = [fn.inverse_root(fn.mean(total, rows.n), EPS) for total in fn.row_sums(squares, TILE)]
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        away = load_distances(x, x_start, element, x_at, rows, here, held, TILE, means)
        weights = fn.load(weight, Int64(0), element, weight_at, rows, here, TILE, 1)
        biases = fn.load(bias, Int64(0), element, bias_at, rows, here, TILE, 2)
        result = fn.map_tiles(normed, (away, weights, biases), TILE, scales)
        fn.store(result, out, out_start, element, out_at, rows, here, TILE, 3)


@register("cute", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Rows are read once, into registers; those that no block holds once more for each of variance and result."""
    id, given = "cute/layer_norm/rows", tiles.problem(x, out, weight, bias)
    return bound(id, layer_norm_kernel, (x, weight, bias, out), given, tiles.read_once(given), (eps,))
