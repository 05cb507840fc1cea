"""Several programs to one row: a launch that leaves their counts, and one that adds these up and writes."""

from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min_backward.device_functions import load_rows, shares_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def partials_kernel(
    x, y, counts, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """A program has span blocks of a tile's rows, of which it leaves one count to each row."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    least = load_rows(y, group, strip, AXIS, SHAPE)
    # Every lane counts for itself, in 32 bits, and lanes meet once, after the loop, in 64.
    running = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), ct.int32)
    end = min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))
    stretches = dev.block_ranges(x, group, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # Backwards, as the blocks that are read last are likeliest to be in L2 still when the others write.
            place = dev.block_index(group, strip, first + last - 1 - i, AXIS)
            equal = dev.load_block(x, place, float("nan"), AXIS, SHAPE, WHOLE) == least
            running = running + dev.lane_sums(ct.astype(equal, ct.int32), AXIS, FOLD)
    count = ct.sum(ct.astype(running, ct.int64), AXIS, keepdims=True)
    ct.store(counts, dev.block_index(group, strip, part, AXIS), count, allow_tma=False)


@ct.kernel
def write_kernel(
    x, y, grad, out, counts, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """PARTS is the power of two that holds the counts of all."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    place = dev.block_index(group, strip, 0, AXIS)
    every = ct.load(
        counts, place, dev.reduced_shape(SHAPE, AXIS, PARTS), padding_mode=ct.PaddingMode.ZERO, allow_tma=False
    )
    count = ct.sum(every, AXIS, keepdims=True)
    least = load_rows(y, group, strip, AXIS, SHAPE)
    each, rest = shares_of(load_rows(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    end = min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))
    stretches = dev.block_ranges(x, group, strip, part * span, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(stretches):
        for i in range(first, last):
            # The index is the loop's own: see online of softmax.
            place = dev.block_index(group, strip, i, AXIS)
            result = ct.where(dev.load_block(x, place, float("nan"), AXIS, SHAPE, WHOLE) == least, each, rest)
            ct.store(out, place, result, check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave counts in a workspace; a second launch writes."""
    id, tensors = "cutile/min_backward/split_two_launches", (x, y, grad, out)
    rows, others = rows_with(x, out, y, grad)
    tile = tiles.block(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(x))
    views = tiles.make_views(rows, tile, tensors, others)
    counts = tiles.workspace(rows, tile, plan, x, torch.int64)
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    of_all = partial(bound, id, warps=tile.warps, grid=programs, occupancy=tile.occupancy(rows, tiles.FIT))
    leave = of_all(partials_kernel, tensors, (*views[:2], counts), plan, (tile.fold(rows), *constants))
    return sequence(leave, of_all(write_kernel, tensors, (*views, counts), plan, (plan.merged, *constants)))
