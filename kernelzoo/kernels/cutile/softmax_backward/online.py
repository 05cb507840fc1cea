"""A running sum in each lane over blocks of a row of both inputs, then a pass that reads them again and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.device_functions import block_at, lanes_of, stretches_of, sums_of, taken_of, tile_of, wide
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register

FIT = 3
"""Programs on a multiprocessor: 80 registers a thread, which has blocks of two inputs."""


@ct.kernel
def online_kernel(grad, y, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), grad, AXIS, SHAPE)
    running = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(grad))
    stretches = stretches_of(grad, strip, 0, ct.num_tiles(grad, AXIS, SHAPE), AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in a cache still when the others write.
            place = block_at(group, strip, first + last - 1 - i, AXIS)
            grads = taken_of(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = taken_of(y, place, 0.0, AXIS, SHAPE, WHOLE)
            running = running + sums_of(grads * weights, AXIS, FOLD)
    total = ct.sum(running, AXIS, keepdims=True)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online of softmax.
            place = block_at(group, strip, i, AXIS)
            grads = taken_of(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = taken_of(y, place, 0.0, AXIS, SHAPE, WHOLE)
            result = weights * (grads - total)
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum in each lane, then a pass that reads again and writes."""
    tensors = (grad, y, out)
    rows, others = rows_with(grad, out, y)
    tile = tiles.block(rows, tiles.BLOCK_BYTES, 2)
    views, id = tiles.seen_all(rows, tile, tensors, others), "cutile/softmax_backward/online"
    constants = (tile.fold(rows), tile.axis, tile.shape)
    occupancy = tile.occupancy(rows, FIT)
    return bound(id, online_kernel, tensors, views, (), constants, tile.count(rows), tile.warps, occupancy=occupancy)
