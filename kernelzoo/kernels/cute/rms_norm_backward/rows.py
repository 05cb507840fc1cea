"""A block takes rows from registers, or in two passes, and leaves scales; a second launch sums over all rows."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv
from kernelzoo.registry import register


def gradient(x, pulled, scale, slope):
    """What an element of x gets."""
    return scale * (pulled - x * slope)


def product(x, grad, scale):
    """Of what an element's sum for the weight is made."""
    return grad * (x * scale)


def load_pairs(tensors, element, starts, strides, rows, here, TILE):
    """A thread's elements of a block of x, and of the gradient times their weights."""
    (x, weight, grad), (x_start, grad_start), (x_at, weight_at, grad_at) = tensors, starts, strides
    values = fn.load(x, x_start, element, x_at, rows, here, TILE)
    return values, fn.load_scaled(grad, weight, grad_start, element, grad_at, weight_at, rows, here, TILE, 2, 1)


@cute.kernel
def rows_kernel(
    x: cute.Pointer, weight: cute.Pointer, grad: cute.Pointer, dx: cute.Pointer, dweight: cute.Pointer,
    room: cute.Pointer, rows: Rows, x_at: Strides, weight_at: Strides, grad_at: Strides, dx_at: Strides,
    dweight_at: Strides, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, grad_start, dx_start = fn.row_offsets(row, rows, (x_at, grad_at, dx_at), TILE)
    blocks, both = dev.num_blocks(rows, TILE), (x, weight, grad)
    places = (x_start, grad_start), (x_at, weight_at, grad_at)
    held = fn.hold(TILE, load_pairs, both, first, *places, rows, here, TILE)
    squares, products = fn.make_sums(TILE), fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        values, pulled = fn.held_or(held, load_pairs, both, element, *places, rows, here, TILE)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, values, TILE), TILE)
        fn.accumulate_sums(products, fn.map_tiles(dev.multiply, (values, pulled), TILE), TILE)
    scales = [fn.inverse_root(fn.mean(total, rows.n), EPS) for total in fn.row_sums(squares, TILE)]
    means = [fn.mean(total, rows.n) for total in fn.row_sums(products, TILE)]
    slopes = [mean * scale * scale for mean, scale in zip(means, scales, strict=True)]
    dev.store_partial(scales, room, row, 0, 1, rows, here, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        values, pulled = fn.held_or(held, load_pairs, both, element, *places, rows, here, TILE)
        result = fn.map_tiles(gradient, (values, pulled), TILE, scales, slopes)
        fn.store(result, dx, dx_start, element, dx_at, rows, here, TILE, 3)


@cute.kernel
def weight_kernel(
    x: cute.Pointer, weight: cute.Pointer, grad: cute.Pointer, dx: cute.Pointer, dweight: cute.Pointer,
    room: cute.Pointer, rows: Rows, x_at: Strides, weight_at: Strides, grad_at: Strides, dx_at: Strides,
    dweight_at: Strides, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has some elements of all rows."""
    block = dev.block_index(EARLY)
    element = dev.first_element(Int64(0), TILE) + dev.index(block, TILE) * TILE.block
    total = fn.make_sums(TILE)
    for i in cutlass.range((rows.total + TILE.rows - 1) // TILE.rows):
        row = dev.first_row(i, TILE)
        here = dev.exists(row, rows, TILE)
        values = fn.load(x, dev.row_offset(row, rows, x_at, TILE), element, x_at, rows, here, TILE)
        grads = fn.load(grad, dev.row_offset(row, rows, grad_at, TILE), element, grad_at, rows, here, TILE, 2)
        terms = fn.map_tiles(product, (values, grads), TILE, fn.load_left(room, row, here, TILE))
        fn.accumulate_sums(total, terms, TILE)
    fn.sum_over_rows(fn.thread_sums(*total)[0], dweight, Int64(element) * dweight_at.n, element < rows.n, TILE)


@register("cute", "rms_norm_backward", "rows")
def rows(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> Launch:
    """Rows are read once, or twice if no block holds one; then sums over all rows for the weight, by blocks."""
    id, tensors = "cute/rms_norm_backward/rows", (x, weight, grad, dx, dweight)
    given = tiles.problem(x, dweight, weight, grad, dx)
    room, tile = [x.new_empty(given.total, dtype=tiles.wide_dtype(x.dtype))], tiles.over_rows(given)
    blocks = cdiv(given.n, tile.block)
    second = bound(id, weight_kernel, tensors, given, tile, workspace=room, blocks=blocks)
    if given.total == 0:
        return second
    return sequence(bound(id, rows_kernel, tensors, given, tiles.read_once(given), (eps,), workspace=room), second)
