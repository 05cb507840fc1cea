import cutlass
from cutlass import cute
from torch import Tensor

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.rms_norm.rows import scale_element
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def add_tiles(tXgX, tXgR, tXgT, tXcX, i, rows, TILE):
    """Add x and residual for a thread's elements of block i. Write the sums, and return them as rounded."""
    sums = fn.map_tiles(dev.add, [dev.load(part, tXcX, i, rows, TILE) for part in (tXgX, tXgR)], TILE)
    dev.store(sums, tXgT, tXcX, i, rows, TILE)
    return [[dev.to_acc(value.to(tXgT.element_type), TILE) for value in vector] for vector in sums]


@cute.kernel
def add_rms_norm_kernel(arguments, EPS: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows = arguments.rows
    tXcX, tXgX, tXgR, tXgW, tXgO, tXgT = dev.partition(tile, rows, TILE, *arguments.tensors)
    add_up = fn.make_block_loader(TILE, lambda i: add_tiles(tXgX, tXgR, tXgT, tXcX, i, rows, TILE))
    # A thread reads only sums that it wrote itself.
    read = add_up if TILE.single else lambda i: dev.load(tXgT, tXcX, i, rows, TILE)
    blocks = dev.blocks_per_row(rows, TILE)
    squares = fn.make_sums(TILE)
    for i in cutlass.range(blocks):
        fn.accumulate_sums(squares, dev.map_rows(fn.square, add_up(i), TILE), TILE)
    scales = [fn.inverse_root(mean, EPS) for mean in fn.means(squares, rows, TILE)]
    for i in cutlass.range(blocks):
        weights = dev.load(tXgW, tXcX, i, rows, TILE)
        dev.store(fn.map_tiles(scale_element, (read(i), weights), TILE, scales), tXgO, tXcX, i, rows, TILE)


@register("cute", "add_rms_norm", "rows")
def rows(x: Tensor, residual: Tensor, weight: Tensor, out: Tensor, total: Tensor, eps: float) -> Launch:
    """Rows that fit in registers are read once. If a row is longer, its sums are read again, from cache, and scaled."""
    id, tensors = "cute/add_rms_norm/rows", (x, residual, weight, out, total)
    given = tiles.make_problem(x, total, residual, weight, out)
    return bind(id, add_rms_norm_kernel, tensors, given, tiles.read_once_tile(given), (eps,))
