import cutlass
from cutlass import cute
from torch import Tensor

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import launch_gradient_kernels
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def input_gradient(x, weighted_grad, scale, slope):
    return scale * (weighted_grad - x * slope)


def weight_gradient_term(x, grad, scale):
    """Return an element's term of the weight's gradient, which is a sum over rows."""
    return (grad * (x * scale),)


@cute.kernel
def rows_kernel(arguments, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, weight, grad, dx, _), (room,) = arguments.rows, arguments.tensors, arguments.rooms
    tXcX, tXgX, tXgW, tXgG, tXgD = dev.partition(tile, rows, TILE, x, weight, grad, dx)
    read = fn.make_block_loader(TILE, lambda i: dev.load(tXgX, tXcX, i, rows, TILE))
    pull = fn.make_block_loader(TILE, lambda i: fn.load_scaled(tXgG, tXgW, tXcX, i, rows, TILE))
    squares, products = fn.make_sums(TILE), fn.make_sums(TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        values = read(i)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, values, TILE), TILE)
        fn.accumulate_sums(products, fn.map_tiles(dev.multiply, (values, pull(i)), TILE), TILE)
    scales = [fn.inverse_root(mean, EPS) for mean in fn.means(squares, rows, TILE)]
    slopes = [mean * scale * scale for mean, scale in zip(fn.means(products, rows, TILE), scales, strict=True)]
    dev.store_partial(scales, room, dev.first_row(tile, TILE), 0, 1, rows, TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        result = fn.map_tiles(input_gradient, (read(i), pull(i)), TILE, scales, slopes)
        dev.store(result, tXgD, tXcX, i, rows, TILE)


@cute.kernel
def weight_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    """A thread block writes the weight's gradient for some elements: sums over all rows."""
    block = dev.block_index(EARLY)
    rows, (x, _, grad, _, dweight) = arguments.rows, arguments.tensors
    fn.sum_over_rows(weight_gradient_term, (x, grad), arguments.rooms, (dweight,), block, rows, TILE)


@register("cute", "rms_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, eps: float) -> Launch:
    """Rows that fit in registers are read once, and longer ones twice. A second launch sums the weight's gradient."""
    id, tensors = "cute/rms_norm_backward/rows", (x, weight, grad, dx, dweight)
    given = tiles.make_problem(x, dweight, weight, grad, dx)
    return launch_gradient_kernels(id, rows_kernel, weight_kernel, tensors, given, (eps,), values_per_row=1)
