import cutlass
from cutlass import cute
from torch import Tensor

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_gradient_kernels
from kernelzoo.kernels.cute.layer_norm.rows import deviations, row_means
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def input_gradient(deviation, weighted_grad, scale, mean_product, mean_grad):
    return scale * (weighted_grad - mean_grad - deviation * scale * (scale * mean_product))


@cute.kernel
def rows_kernel(arguments, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, weight, grad, dx, _, _), (of_means, of_scales) = arguments.rows, arguments.tensors, arguments.rooms
    tXcX, tXgX, tXgW, tXgG, tXgD = dev.partition(tile, rows, TILE, x, weight, grad, dx)
    read = fn.make_block_loader(TILE, lambda i: dev.load(tXgX, tXcX, i, rows, TILE))
    pull = fn.make_block_loader(TILE, lambda i: fn.load_scaled(tXgG, tXgW, tXcX, i, rows, TILE))
    means = dev.list_values(row_means(read, rows, TILE))
    squares, products, total = (fn.make_sums(TILE) for _ in range(3))
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        away, pulled = deviations(read(i), tXcX, i, rows, TILE, means), pull(i)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, away, TILE), TILE)
        fn.accumulate_sums(products, fn.map_tiles(dev.multiply, (away, pulled), TILE), TILE)
        fn.accumulate_sums(total, pulled, TILE)
    scales = [fn.inverse_root(mean, EPS) for mean in fn.means(squares, rows, TILE)]
    slopes, levels = (fn.means(sums, rows, TILE) for sums in (products, total))
    for left, room in ((means, of_means), (scales, of_scales)):
        dev.store_partial(left, room, dev.first_row(tile, TILE), 0, 1, rows, TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        away = deviations(read(i), tXcX, i, rows, TILE, means)
        result = fn.map_tiles(input_gradient, (away, pull(i)), TILE, scales, slopes, levels)
        dev.store(result, tXgD, tXcX, i, rows, TILE)


def weight_and_bias_terms(x, grad, mean, scale):
    """Return an element's terms of the gradients of weight and bias, which are sums over rows."""
    return grad * ((x - mean) * scale), grad


@cute.kernel
def sums_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """A thread block writes the gradients of weight and bias for some elements: sums over all rows."""
    block = dev.block_index(EARLY)
    rows, (x, _, grad, _, dweight, dbias) = arguments.rows, arguments.tensors
    fn.sum_over_rows(weight_and_bias_terms, (x, grad), arguments.rooms, (dweight, dbias), block, rows, TILE)


@register("cute", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Rows that fit in registers are read once, and longer ones three times. A second launch sums over all rows."""
    id, tensors = "cute/layer_norm_backward/rows", (x, weight, grad, dx, dweight, dbias)
    given = tiles.make_problem(x, dbias, weight, grad, dx, dweight)
    return launch_gradient_kernels(id, rows_kernel, sums_kernel, tensors, given, (eps,), values_per_row=2)
