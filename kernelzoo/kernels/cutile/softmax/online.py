"""A running (maximum, sum) pair in each lane over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.device_functions import (
    block_at,
    ends_of,
    inside_of,
    lanes_of,
    store_ends,
    stretches_of,
    taken_of,
    tile_of,
    wide,
)
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, inverse_of, lowest, taken_in
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

FIT = 4
"""Programs on a multiprocessor: the 64 registers that this leaves a thread are enough."""


@ct.kernel
def online_kernel(
    x, out, n, PACK: ct.Constant[int], FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    inside, target, first_group = inside_of(x, group, n, PACK), inside_of(out, group, n, PACK), 0 if PACK else group
    # Every lane keeps a pair of its own, and lanes meet once, after the loop.
    top = lowest(x, lanes_of(SHAPE, AXIS, FOLD))
    total = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(x))
    stretches = stretches_of(inside, strip, 0, ct.num_tiles(inside, AXIS, SHAPE), AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in a cache still when the others write.
            place = block_at(first_group, strip, first + last - 1 - i, AXIS)
            block = taken_of(inside, place, -float("inf"), AXIS, SHAPE, WHOLE)
            top, total = taken_in(top, total, block, AXIS, FOLD)
    row_top = ct.max(top, AXIS, keepdims=True)
    if PACK:
        places, outside, ends = ends_of(x, group, n, -float("inf"), wide(x), PACK)
        row_top = ct.maximum(row_top, ct.max(ends, AXIS, keepdims=True))
        ends = exponential(ends - row_top)
    row_total = ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)
    if PACK:
        row_total = row_total + ct.sum(ends, AXIS, keepdims=True)
    inverse = inverse_of(row_total)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # A store waits for those before it, at a barrier, unless its index is the loop's own.
            place = block_at(first_group, strip, i, AXIS)
            result = exponential(taken_of(inside, place, -float("inf"), AXIS, SHAPE, WHOLE) - row_top) * inverse
            ct.store(target, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)
    if PACK:
        store_ends(out, group, n, places, outside, ends * inverse)


@register("cutile", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each lane, then a pass that writes."""
    id, rows = "cutile/softmax/online", rows_of(x, out)
    tile = tiles.block(rows, tiles.BLOCK_BYTES, 2)
    pack, tile = tiles.ragged(rows, tile, x)
    views, constants = tiles.seen_all(rows, tile, (x, out), pack=pack), (pack, tile.fold(rows), tile.axis, tile.shape)
    occupancy, count = tile.occupancy(rows, FIT, pack > 0), tile.count(rows)
    return bound(id, online_kernel, (x, out), views, (rows.n,), constants, count, tile.warps, occupancy=occupancy)
