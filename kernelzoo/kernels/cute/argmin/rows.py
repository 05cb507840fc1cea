import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import identity, stored_identity, write_rows
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def make_minima(TILE):
    """Return a thread's initial minima and their indices, which are 0. If no element is less than the initial minimum,
    all elements are equal to it, and index 0 is right."""
    return dev.make_accumulator(identity(TILE), TILE), dev.make_accumulator(0, TILE, Int64)


def first_index(low, row, indices):
    """Return the index, from ``element_indices``, of the row's first element that equals ``low`` or is NaN."""
    found = indices[-1]
    for value, index in zip(row[-2::-1], indices[-2::-1], strict=True):
        found = dev.select((value == low) | (value != value), index, found)
    return found


@cute.jit
def update_minimum(least: cute.Tensor, found: cute.Tensor, r: cutlass.Constexpr, low, values, indices):
    """Update the minimum of a thread's row number r, and its index, by later elements, whose minimum is ``low``."""
    kept = least[r]
    if (low < kept) | ((low != low) & (kept == kept)):
        least[r] = low
        found[r] = Int64(first_index(low, values, indices))


@cute.jit
def update_minima(least, found, tXgX, tXcX, begin, end, rows, TILE: cutlass.Constexpr):
    """Update a thread's minima and indices with its elements of blocks begin to end - 1."""
    for i in cutlass.range(begin, end):
        values = dev.load(tXgX, tXcX, i, rows, TILE, stored_identity(TILE))
        of_rows = dev.group_by_row(values, TILE), dev.group_by_row(fn.element_indices(tXcX, i, TILE), TILE)
        lows = dev.thread_reduce(values, dev.minimum, TILE)
        for r, (low, row, indices) in enumerate(zip(lows, *of_rows, strict=True)):
            update_minimum(least, found, r, low, row, indices)


def row_minima(least, found, TILE):
    """Return (minima, their first indices) of a thread's rows, reduced over all threads that share these rows."""
    mine = dev.list_values(least)
    row_least = dev.block_reduce(mine, dev.minimum, TILE)
    candidates = [
        dev.select((value == one) | (value != value), place, Int64(2**63 - 1))
        for value, one, place in zip(mine, row_least, dev.list_values(found), strict=True)
    ]
    return row_least, dev.block_reduce(candidates, dev.minimum, TILE)


@cute.kernel
def argmin_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.row_block_range(rows, TILE)
    least, found = make_minima(TILE)
    update_minima(least, found, tXgX, tXcX, begin, end, rows, TILE)
    write_rows(row_minima(least, found, TILE)[1], out, row, rows, TILE)


@register("cute", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each thread keeps its least element and that element's index. Threads merge these after the loop."""
    given = tiles.make_problem(x, out)
    return bind("cute/argmin/rows", argmin_kernel, (x, out), given, tiles.blockwise_tile(given))
