"""A running (maximum, sum) pair in each thread over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import tiles, words
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.words import lowest, rescaled, scaled, taken_in
from kernelzoo.kernels.cute.words import Rows, Strides
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    tile = words.begin(EARLY)
    row, first, here = words.place_of(tile, rows, x_at, TILE)
    x_start, out_start = words.start_of(row, rows, x_at, TILE), words.start_of(row, rows, out_at, TILE)
    blocks = words.blocks_of(rows, TILE)
    # Every thread keeps a pair of its own, and threads meet once, after the loop.
    tops, totals = words.running(lowest(TILE), TILE), words.running(0, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        source = words.seen(x, x_start, element, x_at, TILE, 0)
        taken_in(tops, totals, words.wide(words.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE), TILE)
    row_tops = words.met(words.scalars(tops), words.higher, TILE)
    row_totals = words.met(rescaled(words.scalars(tops), words.scalars(totals), row_tops), words.add, TILE)
    every_top, every_scale = words.of_rows(row_tops, TILE), words.of_rows([1.0 / total for total in row_totals], TILE)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        source = words.seen(x, x_start, element, x_at, TILE, 0)
        target = words.seen(out, out_start, element, out_at, TILE, 1)
        values = words.wide(words.loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
        results = scaled(values, every_top, every_scale)
        words.write(results, target, here, element, rows.n, TILE)


@register("cute", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each thread, then a pass that writes."""
    given = tiles.problem(x, out)
    return bound("cute/softmax/online", online_kernel, (x, out), given, tiles.block(given))
