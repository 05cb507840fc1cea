import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def scale_element(x, weight, scale):
    return x * scale * weight


@cute.kernel
def rms_norm_kernel(arguments, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows = arguments.rows
    tXcX, tXgX, tXgW, tXgO = dev.partition(tile, rows, TILE, *arguments.tensors)
    read = fn.make_block_loader(TILE, lambda i: dev.load(tXgX, tXcX, i, rows, TILE))
    blocks = dev.blocks_per_row(rows, TILE)
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        fn.accumulate_sums(squares, dev.map_rows(fn.square, read(i), TILE), TILE)
    scales = [fn.inverse_root(mean, EPS) for mean in fn.means(squares, rows, TILE)]
    for i in cutlass.range(blocks):
        weights = dev.load(tXgW, tXcX, i, rows, TILE)
        dev.store(fn.map_tiles(scale_element, (read(i), weights), TILE, scales), tXgO, tXcX, i, rows, TILE)


@register("cute", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Rows that fit in registers are read once. Longer ones are read again, from cache, and scaled."""
    given = tiles.make_problem(x, out, weight)
    return bind("cute/rms_norm/rows", rms_norm_kernel, (x, weight, out), given, tiles.read_once_tile(given), (eps,))
