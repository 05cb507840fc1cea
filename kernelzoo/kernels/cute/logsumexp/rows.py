import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.min.device_functions import write_rows
from kernelzoo.kernels.cute.states import make_states, reduce_states, update_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def compute_logsumexp(tops, totals):
    return [top + cute.math.log(total) for top, total in zip(tops, totals, strict=True)]


@cute.kernel
def logsumexp_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    row = dev.first_row(tile, TILE)
    tXcX, tXgX = dev.partition(tile, rows, TILE, x)
    begin, end = dev.row_block_range(rows, TILE)
    tops, totals = make_states(TILE)
    update_states(tops, totals, tXgX, tXcX, begin, end, rows, TILE)
    write_rows(compute_logsumexp(*reduce_states(tops, totals, TILE)), out, row, rows, TILE)


@register("cute", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass keeps a running (max, sum) state in each thread. Threads merge their states after the loop."""
    given = tiles.make_problem(x, out)
    return bind("cute/logsumexp/rows", logsumexp_kernel, (x, out), given, tiles.blockwise_tile(given))
