"""A block takes several rows, or one block by block: a (max, sum) state in each thread, then the label's logit."""

import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.cute.softmax.device_functions import lowest, online_update, rescale_all
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def row_states(tops, totals, TILE):
    """(maxima, sums) of a thread's rows, of all threads' states. Of a row with a NaN or +inf the sum is NaN, of -inf
    alone 0."""
    mine = dev.registers(tops)
    row_tops = dev.block_reduce(mine, dev.maximum, TILE)
    return row_tops, dev.block_reduce(rescale_all(mine, dev.registers(totals), row_tops), dev.add, TILE)


def in_range(label, rows):
    """Whether a label is one of a row's places."""
    return (label >= 0) & (label < Int64(rows.n))


def loss_of(label, top, total, picked, IGNORE_INDEX):
    """The loss of a row, of its state and its label's logit."""
    return dev.select(label == IGNORE_INDEX, type(top)(0.0), cute.math.log(total) - (picked - top))


@cute.kernel
def cross_entropy_kernel(
    x: cute.Pointer, labels: cute.Pointer, loss: cute.Pointer, rows: Rows, x_at: Strides, labels_at: Strides,
    loss_at: Strides, IGNORE_INDEX: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.block_index(EARLY)
    row, first, here = dev.row_coords(tile, rows, x_at, TILE)
    start = dev.row_offset(row, rows, x_at, TILE)
    tops, totals = dev.make_accumulator(lowest(TILE), TILE), dev.make_accumulator(0, TILE)
    for i in cutlass.range(dev.num_blocks(rows, TILE)):
        values = fn.load(x, start, first + i * TILE.block, x_at, rows, here, TILE, instead=-float("inf"))
        online_update(tops, totals, values, TILE)
    row_tops, row_totals = row_states(tops, totals, TILE)
    of_rows = fn.load_numbers(labels, labels_at, row, rows, here, TILE)
    picked = []
    for r, label in enumerate(of_rows):
        place = start + r * x_at.row + label * x_at.n
        picked.append(dev.to_acc(fn.load_element(x, place, here & in_range(label, rows))[0], TILE))
    losses = [loss_of(*one, IGNORE_INDEX) for one in zip(of_rows, row_tops, row_totals, picked, strict=True)]
    write_rows(losses, loss, row, rows, loss_at, here, TILE)


@register("cute", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass that keeps a running (max, sum) state in each thread, and one element more."""
    id, given = "cute/cross_entropy/rows", tiles.problem(x, loss, labels)
    return bound(id, cross_entropy_kernel, (x, labels, loss), given, tiles.plain(given, 2), (ignore_index,))
