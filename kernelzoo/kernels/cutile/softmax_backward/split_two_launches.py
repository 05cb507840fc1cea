"""Several programs to one row: a launch that leaves their sums, and one that adds these up and writes."""

from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax_backward.online import FIT
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def partials_kernel(
    grad, y, sums, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """A program has span blocks of a tile's rows, of which it leaves one sum to each row."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, grad, AXIS, SHAPE)
    part = ct.bid(0) % parts
    running = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(grad))
    end = min(part * span + span, ct.num_tiles(grad, AXIS, SHAPE))
    stretches = dev.block_ranges(grad, group, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in L2 still when the others write.
            place = dev.block_index(group, strip, first + last - 1 - i, AXIS)
            grads = dev.load_block(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = dev.load_block(y, place, 0.0, AXIS, SHAPE, WHOLE)
            running = running + dev.lane_sums(grads * weights, AXIS, FOLD)
    total = ct.sum(running, AXIS, keepdims=True)
    ct.store(sums, dev.block_index(group, strip, part, AXIS), total, allow_tma=False)


@ct.kernel
def write_kernel(
    grad, y, out, sums, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Every program adds up all sums of its rows in the same order, so that all agree to the bit. PARTS is the power of
    two that holds them."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, grad, AXIS, SHAPE)
    part = ct.bid(0) % parts
    every = dev.load_tile(
        sums, dev.block_index(group, strip, 0, AXIS), 0.0, AXIS, dev.reduced_shape(SHAPE, AXIS, PARTS)
    )
    total = ct.sum(every, AXIS, keepdims=True)
    end = min(part * span + span, ct.num_tiles(grad, AXIS, SHAPE))
    stretches = dev.block_ranges(grad, group, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online of softmax.
            place = dev.block_index(group, strip, i, AXIS)
            grads = dev.load_block(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = dev.load_block(y, place, 0.0, AXIS, SHAPE, WHOLE)
            result = weights * (grads - total)
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums in a workspace; a second launch writes."""
    id, tensors = "cutile/softmax_backward/split_two_launches", (grad, y, out)
    rows, others = rows_with(grad, out, y)
    tile = tiles.block(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(grad))
    views = tiles.make_views(rows, tile, tensors, others)
    sums = tiles.workspace(rows, tile, plan, grad, tiles.wide_dtype(grad.dtype))
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    of_all = partial(bound, id, warps=tile.warps, grid=programs, occupancy=tile.occupancy(rows, FIT))
    leave = of_all(partials_kernel, tensors, (*views[:2], sums), plan, (tile.fold(rows), *constants))
    return sequence(leave, of_all(write_kernel, tensors, (*views, sums), plan, (plan.merged, *constants)))
