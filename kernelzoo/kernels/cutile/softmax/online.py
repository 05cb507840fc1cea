"""A running (maximum, sum) pair in each lane over blocks of a row, then a pass that writes.

After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
"""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, lanes_of, lowest, taken_in
from kernelzoo.kernels.cutile.words import block_at, taken_masked, tile_of, wide
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register

BLOCK_BYTES = 16384
"""Of a block of the running pair: 16 float32 elements to each of 256 threads, with a maximum and a sum for each."""


@ct.kernel
def online_kernel(x, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    blocks = ct.num_tiles(x, AXIS, SHAPE)
    # Every lane keeps a pair of its own, and lanes meet once, after the loop.
    top = lowest(x, lanes_of(SHAPE, AXIS, FOLD))
    total = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(x))
    for i in range(blocks):
        place = block_at(group, strip, i, AXIS)
        top, total = taken_in(top, total, taken_masked(x, place, -float("inf"), AXIS, SHAPE), AXIS, FOLD)
    row_top = ct.max(top, AXIS, keepdims=True)
    inverse = inverse_of(ct.sum(total * exponential(top - row_top), AXIS, keepdims=True))
    for i in range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        place = block_at(group, strip, blocks - 1 - i, AXIS)
        result = exponential(taken_masked(x, place, -float("inf"), AXIS, SHAPE) - row_top) * inverse
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) pair in each lane, then a pass that writes.

    After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867).
    """
    rows = rows_of(x, out)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    views, constants = tiles.seen_all(rows, tile, (x, out)), (tile.fold(rows), tile.axis, tile.shape)
    id = "cutile/softmax/online"
    return bound(id, online_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
