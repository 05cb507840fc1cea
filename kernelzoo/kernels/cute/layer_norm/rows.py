import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.jit
def row_means(read: cutlass.Constexpr, rows, TILE: cutlass.Constexpr):
    """Return the mean of each of a thread's rows, in registers. ``read(i)`` loads block i."""
    totals = fn.make_sums(TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        fn.accumulate_sums(totals, read(i), TILE)
    return dev.make_fragment(fn.means(totals, rows, TILE), dev.acc_type(TILE))


def deviation(x, inside, mean):
    """Return x - mean, or 0 past the row's end."""
    return dev.select(inside, x - mean, type(x)(0.0))


def deviations(values, tXcX, i, rows, TILE, means):
    """Return x - mean for a thread's elements of block i."""
    return fn.map_tiles(deviation, (values, fn.are_inside_row(tXcX, i, rows, TILE)), TILE, means)


def scale_and_shift(deviation, weight, bias, scale):
    return deviation * scale * weight + bias


@cute.kernel
def layer_norm_kernel(arguments, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows = arguments.rows
    tXcX, tXgX, tXgW, tXgB, tXgO = dev.partition(tile, rows, TILE, *arguments.tensors)
    read = fn.make_block_loader(TILE, lambda i: dev.load(tXgX, tXcX, i, rows, TILE))
    blocks = dev.blocks_per_row(rows, TILE)
    means = dev.list_values(row_means(read, rows, TILE))
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        away = deviations(read(i), tXcX, i, rows, TILE, means)
        fn.accumulate_sums(squares, dev.map_rows(fn.square, away, TILE), TILE)
    scales = [fn.inverse_root(mean, EPS) for mean in fn.means(squares, rows, TILE)]
    for i in cutlass.range(blocks):
        away = deviations(read(i), tXcX, i, rows, TILE, means)
        weights, biases = (dev.load(part, tXcX, i, rows, TILE) for part in (tXgW, tXgB))
        dev.store(fn.map_tiles(scale_and_shift, (away, weights, biases), TILE, scales), tXgO, tXcX, i, rows, TILE)


@register("cute", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Rows that fit in registers are read once. Longer ones are read three times: for mean, variance and result."""
    id, given = "cute/layer_norm/rows", tiles.make_problem(x, out, weight, bias)
    return bind(id, layer_norm_kernel, (x, weight, bias, out), given, tiles.read_once_tile(given), (eps,))
