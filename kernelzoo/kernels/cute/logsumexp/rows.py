"""A block takes several rows, or one block by block: a running (max, sum) state in each thread, in one pass."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.cute.softmax.device_functions import exponential, lowest
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def exponential_below(x, top):
    """e^(x - top), where the difference of two equal infinities is 0."""
    return exponential(dev.select(x == top, type(x)(0.0), x - top))


def online_update(tops, totals, values, TILE):
    """The (max, sum) state of each of a thread's rows with more elements. A NaN that a maximum drops is in the sum."""
    for r, (row, top) in enumerate(
        zip(dev.split_rows(values, TILE), dev.thread_reduce(values, dev.maximum, TILE), strict=True)
    ):
        risen = dev.maximum(tops[r], top)
        added = dev.tree_reduce([exponential_below(value, risen) for value in row], dev.add)
        totals[r] = totals[r] * exponential_below(tops[r], risen) + added
        tops[r] = risen


@cute.kernel
def logsumexp_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    tops, totals = dev.make_accumulator(lowest(TILE), TILE), dev.make_accumulator(0, TILE)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        values = fn.load(x, start, first + i * TILE.block, x_at, rows, here, TILE, instead=-float("inf"))
        online_update(tops, totals, values, TILE)
    mine = dev.registers(tops)
    row_tops = dev.block_reduce(mine, dev.maximum, TILE)
    scales = [exponential_below(*pair) for pair in zip(mine, row_tops, strict=True)]
    scaled = [total * scale for total, scale in zip(dev.registers(totals), scales, strict=True)]
    row_totals = dev.block_reduce(scaled, dev.add, TILE)
    result = [top + cute.math.log(total) for top, total in zip(row_tops, row_totals, strict=True)]
    write_rows(result, out, row, rows, out_at, here, TILE)


@register("cute", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass that keeps a running (max, sum) state in each thread; threads meet after the loop."""
    given = tiles.problem(x, out)
    return bound("cute/logsumexp/rows", logsumexp_kernel, (x, out), given, tiles.plain(given, 2))
