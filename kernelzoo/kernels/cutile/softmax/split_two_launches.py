"""Several programs to one row: a launch that leaves (maximum, sum) pairs, and one that merges them and writes."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax.online import BLOCK_BYTES
from kernelzoo.kernels.cutile.softmax.ragged_parts_kernel import launch_ragged_in_parts
from kernelzoo.kernels.cutile.softmax.words import exponential, inverse_of, lanes_of, lowest, taken_in
from kernelzoo.kernels.cutile.words import block_at, slim, taken_masked, tile_of, wide
from kernelzoo.launch import Launch, sequence
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def leave_kernel(
    x, tops, totals, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """A program has span blocks of a tile's rows, of which it leaves one pair to each row."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    top = lowest(x, lanes_of(SHAPE, AXIS, FOLD))
    total = ct.zeros(lanes_of(SHAPE, AXIS, FOLD), wide(x))
    for i in range(part * span, min(part * span + span, ct.num_tiles(x, AXIS, SHAPE))):
        place = block_at(group, strip, i, AXIS)
        top, total = taken_in(top, total, taken_masked(x, place, -float("inf"), AXIS, SHAPE), AXIS, FOLD)
    row_top = ct.max(top, AXIS, keepdims=True)
    row_total = ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)
    ct.store(tops, block_at(group, strip, part, AXIS), row_top, allow_tma=False)
    ct.store(totals, block_at(group, strip, part, AXIS), row_total, allow_tma=False)


@ct.kernel
def write_kernel(
    x, out, tops, totals, parts, span,
    PARTS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """Every program merges all pairs of its rows in the same order, so that all agree to the bit. PARTS is the power of
    two that holds them."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    place = block_at(group, strip, 0, AXIS)
    pairs = slim(SHAPE, AXIS, PARTS)
    every_top = ct.load(tops, place, pairs, padding_mode=ct.PaddingMode.NEG_INF, allow_tma=False)
    every_total = ct.load(totals, place, pairs, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    top = ct.max(every_top, AXIS, keepdims=True)
    inverse = inverse_of(ct.sum(every_total * exponential(every_top - top), AXIS, keepdims=True))
    begin = part * span
    end = min(begin + span, ct.num_tiles(x, AXIS, SHAPE))
    for i in range(begin, end):
        # Backwards: what was read last is likeliest to be in L2 still.
        place = block_at(group, strip, begin + end - 1 - i, AXIS)
        result = exponential(taken_masked(x, place, -float("inf"), AXIS, SHAPE) - top) * inverse
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave (max, sum) pairs; a second launch merges them and writes.

    It reads every row twice, and no program waits for another.
    """
    id, rows = "cutile/softmax/split_two_launches", rows_of(x, out)
    tile = tiles.block(rows, BLOCK_BYTES, 2)
    plan = tiles.cut(rows, tile, device_of(x))
    if tile.shape[:2] == (1, 1) and tiles.is_ragged(rows, x):
        return launch_ragged_in_parts(id, x, out, rows, tile, plan)
    source, target = tiles.seen_all(rows, tile, (x, out))
    pairs = [tiles.left(rows, tile, plan, x, tiles.wide_dtype(x.dtype)) for _ in range(2)]
    constants, programs = (tile.axis, tile.shape), tile.count(rows) * plan.parts
    leave = bound(
        id, leave_kernel, (x, out), (source, *pairs), plan, (tile.fold(rows), *constants), programs, tile.warps
    )
    views, merging = (source, target, *pairs), (plan.merged, *constants)
    return sequence(leave, bound(id, write_kernel, (x, out), views, plan, merging, programs, tile.warps))
