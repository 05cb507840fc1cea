"""A block takes rows from registers, or in three passes, and leaves means and scales; a second sums over all rows."""

import cutlass
from cutlass import Int64, cute
from torch import Tensor

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.layer_norm.rows import load_distances, row_means
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import cdiv
from kernelzoo.registry import register


def gradient(away, pulled, scale, slope, level):
    """What an element of x gets."""
    return scale * (pulled - level - away * scale * (scale * slope))


@cute.kernel
def rows_kernel(
    x: cute.Pointer, weight: cute.Pointer, grad: cute.Pointer, dx: cute.Pointer, dweight: cute.Pointer,
    dbias: cute.Pointer, of_means: cute.Pointer, of_scales: cute.Pointer, rows: Rows, x_at: Strides, weight_at: Strides,
    grad_at: Strides, dx_at: Strides, dweight_at: Strides, dbias_at: Strides,
    EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    x_start, grad_start, dx_start = fn.row_offsets(row, rows, (x_at, grad_at, dx_at), TILE)
    pull = fn.load_scaled, grad, weight, grad_start
    pulled_at = grad_at, weight_at, rows, here, TILE, 2, 1
    held = fn.hold(TILE, fn.load, x, x_start, first, x_at, rows, here, TILE)
    held_pulled = fn.hold(TILE, *pull, first, *pulled_at)
    means = dev.registers(row_means(x, x_start, first, x_at, rows, here, held, TILE))
    squares, products, total = (fn.make_sums(TILE) for _ in range(3))
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        element = first + i * TILE.block
        away = load_distances(x, x_start, element, x_at, rows, here, held, TILE, means)
        pulled = fn.held_or(held_pulled, *pull, element, *pulled_at)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, away, TILE), TILE)
        fn.accumulate_sums(products, fn.map_tiles(dev.multiply, (away, pulled), TILE), TILE)
        fn.accumulate_sums(total, pulled, TILE)
    scales = [fn.inverse_root(fn.mean(one, rows.n), EPS) for one in fn.row_sums(squares, TILE)]
    slopes, levels = ([fn.mean(one, rows.n) for one in fn.row_sums(sums, TILE)] for sums in (products, total))
    for left, room in ((means, of_means), (scales, of_scales)):
        dev.store_partial(left, room, row, 0, 1, rows, here, TILE)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        element = first + i * TILE.block
        away = load_distances(x, x_start, element, x_at, rows, here, held, TILE, means)
        pulled = fn.held_or(held_pulled, *pull, element, *pulled_at)
        result = fn.map_tiles(gradient, (away, pulled), TILE, scales, slopes, levels)
        fn.store(result, dx, dx_start, element, dx_at, rows, here, TILE, 3)


def product(x, grad, mean, scale):
    """Of what an element's sum for the weight is made."""
    return grad * ((x - mean) * scale)


@cute.kernel
def sums_kernel(
    x: cute.Pointer, weight: cute.Pointer, grad: cute.Pointer, dx: cute.Pointer, dweight: cute.Pointer,
    dbias: cute.Pointer, of_means: cute.Pointer, of_scales: cute.Pointer, rows: Rows, x_at: Strides, weight_at: Strides,
    grad_at: Strides, dx_at: Strides, dweight_at: Strides, dbias_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    """A block has some elements of all rows."""
    block = dev.block_index(EARLY)
    element = dev.first_element(Int64(0), TILE) + dev.index(block, TILE) * TILE.block
    of_weight, of_bias = fn.make_sums(TILE), fn.make_sums(TILE)
    for i in cutlass.range((rows.total + TILE.rows - 1) // TILE.rows):
        row = dev.first_row(i, TILE)
        here = dev.exists(row, rows, TILE)
        x_start, grad_start = fn.row_offsets(row, rows, (x_at, grad_at), TILE)
        values = fn.load(x, x_start, element, x_at, rows, here, TILE)
        grads = fn.load(grad, grad_start, element, grad_at, rows, here, TILE, 2)
        means, scales = (fn.load_left(room, row, here, TILE) for room in (of_means, of_scales))
        fn.accumulate_sums(of_weight, fn.map_tiles(product, (values, grads), TILE, means, scales), TILE)
        fn.accumulate_sums(of_bias, grads, TILE)
    fn.sum_over_rows(fn.thread_sums(*of_weight)[0], dweight, Int64(element) * dweight_at.n, element < rows.n, TILE)
    fn.sum_over_rows(fn.thread_sums(*of_bias)[0], dbias, Int64(element) * dbias_at.n, element < rows.n, TILE)


@register("cute", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Rows are read once, or thrice if no block holds one; then sums over all rows, by blocks of elements."""
    id, tensors = "cute/layer_norm_backward/rows", (x, weight, grad, dx, dweight, dbias)
    given = tiles.problem(x, dbias, weight, grad, dx, dweight)
    room = [x.new_empty(given.total, dtype=tiles.wide_dtype(x.dtype)) for _ in range(2)]
    tile = tiles.over_rows(given)
    second = bound(id, sums_kernel, tensors, given, tile, workspace=room, blocks=cdiv(given.n, tile.block))
    if given.total == 0:
        return second
    return sequence(bound(id, rows_kernel, tensors, given, tiles.read_once(given), (eps,), workspace=room), second)
