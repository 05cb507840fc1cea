import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.softmax_backward.device_functions import grad_times_y, input_gradient, load_inputs
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def tile_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (grad, y, out) = arguments.rows, arguments.tensors
    tXcX, tXgG, tXgY, tXgO = dev.partition(tile, rows, TILE, grad, y, out)
    both = load_inputs(tXgG, tXgY, tXcX, 0, rows, TILE)
    totals = dev.row_reduce(grad_times_y(both, TILE), dev.add, TILE)
    dev.store(fn.map_tiles(input_gradient, both, TILE, totals), tXgO, tXcX, 0, rows, TILE)


@register("cute", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block keeps complete rows of both inputs in registers: several short rows, one row, or a strip of columns."""
    id, given = "cute/softmax_backward/fused", tiles.make_problem(grad, out, y)
    return bind(id, tile_kernel, (grad, y, out), given, tiles.register_tile(id, given, 2))
