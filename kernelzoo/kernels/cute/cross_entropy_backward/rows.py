import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import row_functions as fn
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.cross_entropy.rows import label_in_row
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min_backward.device_functions import load_widened
from kernelzoo.kernels.cute.softmax.device_functions import online_update, softmax_of
from kernelzoo.kernels.cute.states import make_states, reduce_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def gradient_or_nan(grad, label, rows):
    """Return ``grad``, the gradient of a row's loss, or NaN if the row's label is out of range."""
    return dev.select(label_in_row(label, rows), grad, type(grad)(float("nan")))


def input_gradient(x, index, top, inverse, label, row_grad, ignored):
    zero, one = type(x)(0.0), type(x)(1.0)
    result = row_grad * (softmax_of(x, top, inverse) - dev.select(index == label, one, zero))
    return dev.select(ignored, zero, result)


@cute.kernel
def backward_kernel(arguments, IGNORE_INDEX: cutlass.Constexpr, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, labels, grad, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    label = fn.load_row_values(labels, row, rows, TILE)
    grads = load_widened(grad, row, rows, TILE)
    factors = [gradient_or_nan(*pair, rows) for pair in zip(grads, label, strict=True)]
    ignored = [one == IGNORE_INDEX for one in label]
    blocks = dev.blocks_per_row(rows, TILE)
    tops, totals = make_states(TILE)
    for i in cutlass.range(blocks):
        online_update(tops, totals, dev.load(tXgX, tXcX, i, rows, TILE, -float("inf")), TILE)
    row_tops, row_totals = reduce_states(tops, totals, TILE)
    inverses = [1.0 / total for total in row_totals]
    for i in cutlass.range(blocks):
        both = dev.load(tXgX, tXcX, i, rows, TILE), fn.element_indices(tXcX, i, TILE)
        result = fn.map_tiles(input_gradient, both, TILE, row_tops, inverses, label, factors, ignored)
        dev.store(result, tXgO, tXcX, i, rows, TILE)


@register("cute", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """The first pass finds each row's (max, sum) state. The second one reads the row again, from cache, and writes."""
    id, tensors, given = (
        "cute/cross_entropy_backward/rows",
        (x, labels, grad, out),
        tiles.make_problem(x, out, labels, grad),
    )
    return bind(id, backward_kernel, tensors, given, tiles.blockwise_tile(given, 2), (ignore_index,))
