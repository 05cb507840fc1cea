"""Several programs to one row: a launch that leaves their counts, and one that adds these up and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min_backward.words import equal_to, one_a_row, shares_of
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.words import block_at, slim, tile_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def leave_kernel(x, y, counts, parts, span, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """A program has span blocks of a tile's rows, of which it leaves one count to each row."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    least = one_a_row(y, group, strip, AXIS, SHAPE)
    # Every lane counts for itself, in 32 bits, and lanes meet once, after the loop, in 64.
    running = ct.zeros(SHAPE, ct.int32)
    for i in range(part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))):
        running = running + ct.astype(equal_to(least, x, block_at(group, strip, i, AXIS), AXIS, SHAPE), ct.int32)
    count = ct.sum(ct.astype(running, ct.int64), AXIS, keepdims=True)
    ct.store(counts, block_at(group, strip, part, AXIS), count, allow_tma=False)


@ct.kernel
def write_kernel(
    x, y, grad, out, counts, parts, span, PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """PARTS is the power of two that holds the counts of all."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    place = block_at(group, strip, 0, AXIS)
    every = ct.load(counts, place, slim(SHAPE, AXIS, PARTS), padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    count = ct.sum(every, AXIS, keepdims=True)
    least = one_a_row(y, group, strip, AXIS, SHAPE)
    each, rest = shares_of(one_a_row(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    begin = part * span
    end = min(begin + span, ct.num_tiles(x, AXIS, SHAPE))
    for i in range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        place = block_at(group, strip, begin + end - 1 - i, AXIS)
        ct.store(out, place, ct.where(equal_to(least, x, place, AXIS, SHAPE), each, rest), allow_tma=False)


@register("cutile", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave counts in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    id, tensors = "cutile/min_backward/split_two_launches", (x, y, grad, out)
    rows, others = rows_with(x, out, y, grad)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(x))
    views = tiles.seen_all(rows, tile, tensors, others)
    counts = tiles.left(rows, tile, plan, x, torch.int64)
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    leave = bound(id, leave_kernel, tensors, (*views[:2], counts), plan, constants, programs, tile.warps)
    merging = (plan.merged, *constants)
    return sequence(leave, bound(id, write_kernel, tensors, (*views, counts), plan, merging, programs, tile.warps))
