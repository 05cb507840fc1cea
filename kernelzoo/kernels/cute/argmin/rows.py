"""A block takes several rows, or one block by block: in each thread the least element so far, and its place."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.device_functions import element_identity, identity, write_rows
from kernelzoo.launch import Launch
from kernelzoo.registry import register

PAST = 2**63 - 1
"""A place past all others: what is there is never the first of equal elements."""


def online_update(least, found, values, at, TILE):
    """The least element of each of a thread's rows and its place, with more elements, which come in order."""
    for r, (row, there) in enumerate(zip(dev.split_rows(values, TILE), dev.split_rows(at, TILE), strict=True)):
        for value, place in zip(row, there, strict=True):
            kept = least[r]
            less = (value < kept) | ((value != value) & (kept == kept)) | ((value == kept) & (place < found[r]))
            least[r], found[r] = dev.select(less, value, kept), dev.select(less, place, found[r])


def place_or_past(place, value, least):
    """The place of a row's least element, if this is as small, or a NaN as well."""
    return dev.select((value == least) | (value != value), place, Int64(PAST))


@cute.kernel
def argmin_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    least, found = dev.make_accumulator(identity(TILE), TILE), dev.make_accumulator(PAST, TILE, Int64)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        element = first + i * TILE.block
        values = fn.load(x, start, element, x_at, rows, here, TILE, instead=element_identity(TILE))
        at = fn.map_tiles(
            dev.select, (fn.inside(element, rows, TILE), fn.places(element, TILE)), TILE, [Int64(PAST)] * TILE.rows_each
        )
        online_update(least, found, values, at, TILE)
    mine = dev.registers(least)
    pairs = zip(dev.registers(found), mine, dev.block_reduce(mine, dev.minimum, TILE), strict=True)
    places = dev.block_reduce([place_or_past(*one) for one in pairs], dev.minimum, TILE)
    write_rows(places, out, row, rows, out_at, here, TILE)


@register("cute", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """In each thread the least element so far and its place; threads meet after the loop."""
    given = tiles.problem(x, out)
    return bound("cute/argmin/rows", argmin_kernel, (x, out), given, tiles.plain(given, 2))
