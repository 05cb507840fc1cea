"""A running count in each lane over blocks of a row, then a pass that reads the row again and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.min_backward.words import equal_to, one_a_row, shares_of
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.words import block_at, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def online_kernel(x, y, grad, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    blocks = ct.num_tiles(x, AXIS, SHAPE)
    least = one_a_row(y, group, strip, AXIS, SHAPE)
    # Every lane counts for itself, in 32 bits, and lanes meet once, after the loop, in 64.
    counts = ct.zeros(SHAPE, ct.int32)
    for i in range(blocks):
        counts = counts + ct.astype(equal_to(least, x, block_at(group, strip, i, AXIS), AXIS, SHAPE), ct.int32)
    count = ct.sum(ct.astype(counts, ct.int64), AXIS, keepdims=True)
    each, rest = shares_of(one_a_row(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    for i in range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        place = block_at(group, strip, blocks - 1 - i, AXIS)
        ct.store(out, place, ct.where(equal_to(least, x, place, AXIS, SHAPE), each, rest), allow_tma=False)


@register("cutile", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running count in each lane, then a pass that reads again and writes."""
    tensors = (x, y, grad, out)
    rows, others = rows_with(x, out, y, grad)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    views, id = tiles.seen_all(rows, tile, tensors, others), "cutile/min_backward/online"
    return bound(id, online_kernel, tensors, views, (), (tile.axis, tile.shape), tile.count(rows), tile.warps)
