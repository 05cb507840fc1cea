"""Several programs to one row: a launch that leaves their sums, and one that adds these up and writes."""

from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.device_functions import (
    block_at,
    lanes_of,
    slim,
    stretches_of,
    sums_of,
    taken,
    taken_of,
    tile_of,
    wide,
)
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax_backward.online import FIT
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def leave_kernel(grad, y, sums, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """A program has span blocks of a tile's rows, of which it leaves one sum to each row."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, grad, AXIS, SHAPE)
    part = ct.bid(0) % parts
    running = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(grad))
    end = min(part * span + span, ct.num_tiles(grad, AXIS, SHAPE))
    stretches = stretches_of(grad, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in L2 still when the others write.
            place = block_at(group, strip, first + last - 1 - i, AXIS)
            grads = taken_of(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = taken_of(y, place, 0.0, AXIS, SHAPE, WHOLE)
            running = running + sums_of(grads * weights, AXIS, FOLD)
    total = ct.sum(running, AXIS, keepdims=True)
    ct.store(sums, block_at(group, strip, part, AXIS), total, allow_tma=False)


@ct.kernel
def write_kernel(
    grad, y, out, sums, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Every program adds up all sums of its rows in the same order, so that all agree to the bit. PARTS is the power of
    two that holds them."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, grad, AXIS, SHAPE)
    part = ct.bid(0) % parts
    every = taken(sums, block_at(group, strip, 0, AXIS), 0.0, AXIS, slim(SHAPE, AXIS, PARTS))
    total = ct.sum(every, AXIS, keepdims=True)
    end = min(part * span + span, ct.num_tiles(grad, AXIS, SHAPE))
    stretches = stretches_of(grad, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online of softmax.
            place = block_at(group, strip, i, AXIS)
            grads = taken_of(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = taken_of(y, place, 0.0, AXIS, SHAPE, WHOLE)
            result = weights * (grads - total)
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums in a workspace; a second launch writes."""
    id, tensors = "cutile/softmax_backward/split_two_launches", (grad, y, out)
    rows, others = rows_with(grad, out, y)
    tile = tiles.block(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(grad))
    views = tiles.seen_all(rows, tile, tensors, others)
    sums = tiles.left(rows, tile, plan, grad, tiles.wide_dtype(grad.dtype))
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    of_all = partial(bound, id, warps=tile.warps, programs=programs, occupancy=tile.occupancy(rows, FIT))
    leave = of_all(leave_kernel, tensors, (*views[:2], sums), plan, (tile.fold(rows), *constants))
    return sequence(leave, of_all(write_kernel, tensors, (*views, sums), plan, (plan.merged, *constants)))
