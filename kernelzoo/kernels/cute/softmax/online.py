"""A running (maximum, sum) pair in each thread over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cutlass
import torch
from cutlass import cute

from kernelzoo.kernels.cute import tiles
from kernelzoo.kernels.cute.launch import bound
from kernelzoo.kernels.cute.softmax.words import lowest, rescaled, scaled, taken_in
from kernelzoo.kernels.cute.words import (
    Rows,
    Strides,
    add,
    blocks_of,
    exists,
    first_element,
    first_row,
    higher,
    loaded,
    met,
    narrowed,
    of_rows,
    running,
    scalars,
    seen,
    start_of,
    store,
    wait,
    wide,
)  # fmt: skip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@cute.kernel
def online_kernel(
    x: cute.Pointer, out: cute.Pointer, rows: Rows, x_at: Strides, out_at: Strides,
    TILE: cutlass.Constexpr, EARLY: cutlass.Constexpr,
):  # fmt: skip
    wait(EARLY)
    tile, _, _ = cute.arch.block_idx()
    row = first_row(tile, TILE)
    first = first_element(start_of(row, rows, x_at, TILE), TILE)
    here = exists(row, rows, TILE)
    x_start, out_start = start_of(row, rows, x_at, TILE), start_of(row, rows, out_at, TILE)
    blocks = blocks_of(rows, TILE)
    # Every thread keeps a pair of its own, and threads meet once, after the loop.
    tops, totals = running(lowest(TILE), TILE), running(0, TILE)
    for i in cutlass.range(blocks):
        element = first + i * TILE.block
        source = seen(x, x_start, element, x_at, TILE, 0)
        taken_in(tops, totals, wide(loaded(source, here, element, rows.n, -float("inf"), TILE), TILE), TILE)
    row_tops = met(scalars(tops), higher, TILE)
    row_totals = met(rescaled(scalars(tops), scalars(totals), row_tops), add, TILE)
    every_top, every_scale = of_rows(row_tops, TILE), of_rows([1.0 / total for total in row_totals], TILE)
    for i in cutlass.range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        element = first + (blocks - 1 - i) * TILE.block
        source = seen(x, x_start, element, x_at, TILE, 0)
        target = seen(out, out_start, element, out_at, TILE, 1)
        values = wide(loaded(source, here, element, rows.n, -float("inf"), TILE), TILE)
        results = scaled(values, every_top, every_scale)
        store(narrowed(results, out.dtype, TILE), target, here, element, rows.n, TILE)


@register("cute", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each thread, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    given = tiles.problem(rows_of(x, out))
    return bound("cute/softmax/online", online_kernel, (x, out), given, tiles.block(given))
