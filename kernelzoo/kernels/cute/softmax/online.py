"""After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867)."""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bind
from kernelzoo.kernels.cute.softmax.device_functions import online_update, softmax_of
from kernelzoo.kernels.cute.states import make_states, reduce_states
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(arguments, TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr):
    tile = dev.block_index(EARLY)
    rows, (x, out) = arguments.rows, arguments.tensors
    tXcX, tXgX, tXgO = dev.partition(tile, rows, TILE, x, out)
    blocks = dev.blocks_per_row(rows, TILE)
    # Each thread keeps a pair. Threads merge their pairs once, after the loop.
    tops, totals = make_states(TILE)
    for i in cutlass.range(blocks):
        online_update(tops, totals, dev.load(tXgX, tXcX, i, rows, TILE, -float("inf")), TILE)
    row_tops, row_totals = reduce_states(tops, totals, TILE)
    scales = [1.0 / total for total in row_totals]
    for i in cutlass.range(blocks):
        # Backwards, because the elements read last are the most likely to be cached.
        values = dev.load(tXgX, tXcX, blocks - 1 - i, rows, TILE, -float("inf"))
        values = dev.map_rows(softmax_of, values, TILE, row_tops, scales)
        dev.store(values, tXgO, tXcX, blocks - 1 - i, rows, TILE)


@register("cute", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The first pass keeps a running (max, sum) state in each thread. The second pass reads again and writes."""
    given = tiles.make_problem(x, out)
    return bind("cute/softmax/online", online_kernel, (x, out), given, tiles.long_row_tile(given))
