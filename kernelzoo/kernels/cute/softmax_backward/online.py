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
def online_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (grad, y, out) = arguments.rows, arguments.tensors
    tXcX, tXgG, tXgY, tXgO = dev.partition(tile, rows, TILE, grad, y, out)
    blocks = dev.blocks_per_row(rows, TILE)
    sums = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        both = load_inputs(tXgG, tXgY, tXcX, i, rows, TILE)
        fn.accumulate_sums(sums, grad_times_y(both, TILE), TILE)
    totals = fn.row_sums(sums, TILE)
    for i in cutlass.range(blocks):
        # Backwards, because the elements read last are the most likely to be cached.
        both = load_inputs(tXgG, tXgY, tXcX, blocks - 1 - i, rows, TILE)
        dev.store(fn.map_tiles(input_gradient, both, TILE, totals), tXgO, tXcX, blocks - 1 - i, rows, TILE)


@register("cute", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """The first pass keeps a running sum in each thread. The second pass reads the row again and writes."""
    given = tiles.make_problem(grad, out, y)
    return bind("cute/softmax_backward/online", online_kernel, (grad, y, out), given, tiles.long_row_tile(given, 2))
