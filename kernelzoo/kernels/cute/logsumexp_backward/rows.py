import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min_backward.device_functions import load_widened
from kernelzoo.kernels.cute.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def input_gradient(x, y, grad):
    return grad * exponential(x - y)


@cute.kernel
def backward_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, y, grad, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    of_rows = load_widened(y, row, rows, TILE)
    factors = load_widened(grad, row, rows, TILE)
    for i in cutlass.range(dev.blocks_per_row(rows, TILE)):
        result = dev.map_rows(input_gradient, dev.load(tXgX, tXcX, i, rows, TILE), TILE, of_rows, factors)
        dev.store(result, tXgO, tXcX, i, rows, TILE)


@register("cute", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Threads multiply exp(x - y) of each element by the gradient of its row: one read and one write."""
    given = tiles.make_problem(x, out, y, grad)
    return bind("cute/logsumexp_backward/rows", backward_kernel, (x, y, grad, out), given, tiles.blockwise_tile(given))
