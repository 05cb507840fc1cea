import cutlass
import torch
from cutlass import Int64, cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.cute.states import make_states, reduce_states, update_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def label_in_row(label, rows):
    """Return whether a label is the index of one of a row's elements."""
    return (label >= 0) & (label < Int64(rows.n))


def row_loss(label, top, total, logit, IGNORE_INDEX):
    """Return a row's loss from its label's ``logit``. If the row has +inf, ``total`` is inf and the loss NaN."""
    return dev.select(label == IGNORE_INDEX, type(top)(0.0), cute.math.log(total) - (logit - top) + (total - total))


def compute_losses(x, labels, row, rows, tops, totals, IGNORE_INDEX, TILE):
    (x, x_at), of_rows, picked = x, fn.load_row_values(labels, row, rows, TILE), []
    for r, label in enumerate(of_rows):
        place = dev.row_offset(row, rows, x_at, TILE) + r * x_at.row + label * x_at.n
        picked.append(
            dev.to_acc(fn.load_element(x, place, dev.row_exists(row, rows, TILE) & label_in_row(label, rows))[0], TILE)
        )
    return [row_loss(*one, IGNORE_INDEX) for one in zip(of_rows, tops, totals, picked, strict=True)]


@cute.kernel
def cross_entropy_kernel(arguments, IGNORE_INDEX: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, labels, loss) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.row_block_range(rows, TILE)
    tops, totals = make_states(TILE)
    update_states(tops, totals, tXgX, tXcX, begin, end, rows, TILE)
    row_tops, row_totals = reduce_states(tops, totals, TILE)
    result = compute_losses(x, labels, row, rows, row_tops, row_totals, IGNORE_INDEX, TILE)
    write_rows(result, loss, row, rows, TILE)


@register("cute", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass keeps a running (max, sum) state in each thread. Then the logit of each row's label is read."""
    id, given = "cute/cross_entropy/rows", tiles.make_problem(x, loss, labels)
    return bind(id, cross_entropy_kernel, (x, labels, loss), given, tiles.blockwise_tile(given), (ignore_index,))
