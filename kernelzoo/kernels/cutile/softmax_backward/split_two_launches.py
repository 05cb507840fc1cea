"""Several programs to one row: a launch that leaves their sums, and one that adds these up and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.words import block_at, slim, taken, taken_masked, tile_of, wide
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@ct.kernel
def leave_kernel(grad, y, sums, parts, span, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """A program has span blocks of a tile's rows, of which it leaves one sum to each row."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, grad, AXIS, SHAPE)
    part = ct.bid(0) % parts
    running = ct.zeros(SHAPE, wide(grad))
    for i in range(part * span, min(part * span + span, ct.num_tiles(grad, AXIS, SHAPE))):
        place = block_at(group, strip, i, AXIS)
        grads = taken_masked(grad, place, 0.0, AXIS, SHAPE)
        weights = taken_masked(y, place, 0.0, AXIS, SHAPE)
        running = running + grads * weights
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
    begin = part * span
    end = min(begin + span, ct.num_tiles(grad, AXIS, SHAPE))
    for i in range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        place = block_at(group, strip, begin + end - 1 - i, AXIS)
        grads = taken_masked(grad, place, 0.0, AXIS, SHAPE)
        weights = taken_masked(y, place, 0.0, AXIS, SHAPE)
        result = weights * (grads - total)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    id, tensors = "cutile/softmax_backward/split_two_launches", (grad, y, out)
    rows, others = rows_with(grad, out, y)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(grad))
    views = tiles.seen_all(rows, tile, tensors, others)
    sums = tiles.left(rows, tile, plan, grad, tiles.wide_dtype(grad.dtype))
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    leave = bound(id, leave_kernel, tensors, (*views[:2], sums), plan, constants, programs, tile.warps)
    merging = (plan.merged, *constants)
    return sequence(leave, bound(id, write_kernel, tensors, (*views, sums), plan, merging, programs, tile.warps))
