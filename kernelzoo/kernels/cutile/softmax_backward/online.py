"""A running sum in each lane over blocks of a row of both inputs, then a pass that reads them again and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.words import block_at, taken_masked, tile_of, wide
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def online_kernel(grad, y, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), grad, AXIS, SHAPE)
    blocks = ct.num_tiles(grad, AXIS, SHAPE)
    running = ct.zeros(SHAPE, wide(grad))
    for i in range(blocks):
        place = block_at(group, strip, i, AXIS)
        grads = taken_masked(grad, place, 0.0, AXIS, SHAPE)
        weights = taken_masked(y, place, 0.0, AXIS, SHAPE)
        running = running + grads * weights
    total = ct.sum(running, AXIS, keepdims=True)
    for i in range(blocks):
        # Backwards: what was read last is likeliest to be in a cache still.
        place = block_at(group, strip, blocks - 1 - i, AXIS)
        grads = taken_masked(grad, place, 0.0, AXIS, SHAPE)
        weights = taken_masked(y, place, 0.0, AXIS, SHAPE)
        result = weights * (grads - total)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each lane, then a pass that reads again and writes."""
    tensors = (grad, y, out)
    rows, others = rows_with(grad, out, y)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    views, id = tiles.seen_all(rows, tile, tensors, others), "cutile/softmax_backward/online"
    return bound(id, online_kernel, tensors, views, (), (tile.axis, tile.shape), tile.count(rows), tile.warps)
