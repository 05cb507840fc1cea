"""A running (maximum, sum) pair in each lane over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.ragged_online_kernel import launch_of_ragged_online
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, lowest, taken_in
from kernelzoo.kernels.cutile.words import block_at, lanes_of, stretches_of, taken_of, tile_of, wide
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

BLOCK_BYTES = 16384
"""Of a block of the running pair: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""


FIT = 4
"""Programs on a multiprocessor: the 64 registers that this leaves a thread are enough."""


@ct.kernel
def online_kernel(x, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    # Every lane keeps a pair of its own, and lanes meet once, after the loop.
    top = lowest(x, lanes_of(SHAPE, AXIS, FOLD))
    total = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(x))
    stretches = stretches_of(x, strip, 0, ct.num_tiles(x, AXIS, SHAPE), AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in a cache still when the others write.
            place = block_at(group, strip, first + last - 1 - i, AXIS)
            block = taken_of(x, place, -float("inf"), AXIS, SHAPE, WHOLE)
            top, total = taken_in(top, total, block, AXIS, FOLD)
    row_top = ct.max(top, AXIS, keepdims=True)
    inverse = inverse_of(ct.sum(total * exponential(top - row_top), AXIS, keepdims=True))
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # A store waits for those before it, at a barrier, unless its index is the loop's own.
            place = block_at(group, strip, i, AXIS)
            result = exponential(taken_of(x, place, -float("inf"), AXIS, SHAPE, WHOLE) - row_top) * inverse
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each lane, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    id, rows = "cutile/softmax/online", rows_of(x, out)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    ragged = tile.shape[:2] == (1, 1) and tiles.is_ragged(rows, x)
    occupancy = tile.occupancy(rows, FIT, ragged)
    if ragged:
        return launch_of_ragged_online(id, x, out, rows, tile.block, tile.warps, occupancy)
    views, constants = tiles.seen_all(rows, tile, (x, out)), (tile.fold(rows), tile.axis, tile.shape)
    return bound(id, online_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps, occupancy=occupancy)
