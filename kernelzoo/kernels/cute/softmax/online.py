"""A running (maximum, sum) pair in each thread over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import device_functions as dev
from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.device_functions import Rows, Strides
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.device_functions import lowest, rescaled, scaled, taken_in
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = dev.begin(EARLY)
    row, first, here = dev.place_of(tile, rows, x_at, TILE)
    x_start, out_start = dev.start_of(row, rows, x_at, TILE), dev.start_of(row, rows, out_at, TILE)
    blocks = dev.blocks_of(rows, TILE)
    # Every thread keeps a pair of its own, and threads meet once, after the loop.
    tops, totals = dev.running(lowest(TILE), TILE), dev.running(0, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        source = dev.seen(x, x_start, element, x_at, TILE, 0)
        taken_in(tops, totals, dev.wide(dev.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE), TILE)
    row_tops = dev.met(dev.scalars(tops), dev.higher, TILE)
    row_totals = dev.met(rescaled(dev.scalars(tops), dev.scalars(totals), row_tops), dev.add, TILE)
    every_top, every_scale = dev.of_rows(row_tops, TILE), dev.of_rows([1.0 / total for total in row_totals], TILE)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        source = dev.seen(x, x_start, element, x_at, TILE, 0)
        target = dev.seen(out, out_start, element, out_at, TILE, 1)
        values = dev.wide(dev.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
        results = scaled(values, every_top, every_scale)
        dev.write(results, target, here, element, rows.n, TILE)


@register("cute", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each thread, then a pass that writes."""
    given = tiles.problem(x, out)
    return bound("cute/softmax/online", online_kernel, (x, out), given, tiles.block(given))
