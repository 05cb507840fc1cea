import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8
from kernelzoo.registry import register


def summed_type(TILE):
    """Return the dtype in which elements are added up: 64 bits for integers, else that of computation."""
    return dev.acc_type(TILE) if "float" in TILE.dtype else Int64


@cute.jit
def add_up(tXgX: cute.Tensor, tXcX: cute.Tensor, begin, end, rows, TILE: cutlass.Constexpr):
    """Return the sums of a thread's rows over blocks begin to end - 1, in registers."""
    kind = summed_type(TILE)
    sums = dev.make_accumulator(0, TILE, kind), dev.make_accumulator(0, TILE, kind)
    for i in cutlass.range(begin, end):
        fn.accumulate_sums(sums, dev.map_rows(kind, dev.load(tXgX, tXcX, i, rows, TILE, 0), TILE), TILE)
    return dev.make_fragment(fn.row_sums(sums, TILE), kind)


@cute.kernel
def sum_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.row_block_range(rows, TILE)
    sums = add_up(tXgX, tXcX, begin, end, rows, TILE)
    write_rows(dev.list_values(sums), out, row, rows, TILE)


@register("cute", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread keeps a sum and the sum's rounding error. After the loop, the threads' sums are added in a tree."""
    x = bool_as_uint8(x)
    given = tiles.make_problem(x, out)
    return bind("cute/sum/rows", sum_kernel, (x, out), given, tiles.blockwise_tile(given))
