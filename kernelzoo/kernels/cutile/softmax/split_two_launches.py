from functools import partial

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import add_exact_sum, exponential, fast_inverse, lowest_finite
from kernelzoo.kernels.cutile.softmax.online import lane_states, write_blocks
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


def part_bounds(group, part, n, span, PACK, EXACT_SUM, SHAPE):
    """Return (first element, length, first block, whether to load unaligned ends) of a program's part of a row. With
    EXACT_SUM, cuts don't depend on alignment, and each part has ends. Else part 0 loads the ends of the whole row."""
    if EXACT_SUM and PACK:
        cut = part * span * SHAPE[2]
        return group * n + cut, min(n - cut, span * SHAPE[2]), 0 * part, part >= 0
    return group * n, n, part * span, part == 0


def state_with_exact_sum(x, max_so_far, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return (max, exact sum) of a row's blocks [begin, end). ``max_so_far``: a lower bound of that maximum."""
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            block = dev.load_block(x, dev.block_index(group, strip, i, AXIS), -float("inf"), AXIS, SHAPE, WHOLE)
            max_so_far = ct.maximum(max_so_far, ct.max(block, AXIS, keepdims=True))
    total = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), ct.float64)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            block = dev.load_block(x, dev.block_index(group, strip, i, AXIS), -float("inf"), AXIS, SHAPE, WHOLE)
            total = add_exact_sum(exponential(block - max_so_far), total, AXIS, FOLD)
    return max_so_far, ct.sum(total, AXIS, keepdims=True)


@ct.kernel
def partials_kernel(
    x, tops, totals, n, parts, span, EXACT: ct.Constant[bool],
    PACK: ct.Constant[int], FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """Each program stores one (max, sum) state per row, of ``span`` blocks. ``part_bounds`` says which ends it has."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    first, length, begin, ended = part_bounds(group, part, n, span, PACK, EXACT, SHAPE)
    inside, first_group = dev.whole_vectors(x, first, length, PACK), 0 if PACK else group
    end = min(begin + span, ct.num_tiles(inside, AXIS, SHAPE))
    if EXACT:
        row_top = lowest_finite(x, (1, 1, 1))
        if PACK:
            _, _, ends = dev.load_unaligned_ends(x, first, length, -float("inf"), dev.acc_dtype(x), PACK)
            row_top = ct.maximum(row_top, ct.max(ends, AXIS, keepdims=True))
        row_top, row_total = state_with_exact_sum(inside, row_top, first_group, strip, begin, end, FOLD, AXIS, SHAPE)
        if PACK:
            row_total = add_exact_sum(exponential(ends - row_top), row_total, AXIS, 2 * PACK)
        row_total = ct.astype(row_total, ct.float32)
    else:
        top, total = lane_states(inside, first_group, strip, begin, end, FOLD, AXIS, SHAPE)
        row_top = ct.max(top, AXIS, keepdims=True)
        row_total = ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)
    if PACK and not EXACT:  # noqa: SIM102  # a compile-time constant
        if ended:
            _, _, ends = dev.load_unaligned_ends(x, first, length, -float("inf"), dev.acc_dtype(x), PACK)
            higher = ct.maximum(row_top, ct.max(ends, AXIS, keepdims=True))
            of_ends = ct.sum(exponential(ends - higher), AXIS, keepdims=True)
            row_total = row_total * exponential(row_top - higher) + of_ends
            row_top = higher
    ct.store(tops, dev.block_index(group, strip, part, AXIS), row_top, allow_tma=False)
    ct.store(totals, dev.block_index(group, strip, part, AXIS), row_total, allow_tma=False)


@ct.kernel
def write_kernel(
    x, out, tops, totals, n, parts, span,
    EXACT: ct.Constant[bool], PARTS: ct.Constant[int], PACK: ct.Constant[int], AXIS: ct.Constant[int],
    SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """Each program merges its rows' states, at most PARTS per row, in the same order, so that all get the same bits."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0) // parts, x, AXIS, SHAPE)
    part = ct.bid(0) % parts
    place = dev.block_index(group, strip, 0, AXIS)
    pairs = dev.reduced_shape(SHAPE, AXIS, PARTS)
    every_top = ct.load(tops, place, pairs, padding_mode=ct.PaddingMode.NEG_INF, allow_tma=False)
    every_total = ct.load(totals, place, pairs, padding_mode=ct.PaddingMode.ZERO, allow_tma=False)
    top = ct.max(every_top, AXIS, keepdims=True)
    inverse = fast_inverse(ct.sum(every_total * exponential(every_top - top), AXIS, keepdims=True))
    first, length, begin, ended = part_bounds(group, part, n, span, PACK, EXACT, SHAPE)
    inside, target = dev.whole_vectors(x, first, length, PACK), dev.whole_vectors(out, first, length, PACK)
    first_group, end = 0 if PACK else group, min(begin + span, ct.num_tiles(inside, AXIS, SHAPE))
    write_blocks(inside, target, top, inverse, first_group, strip, begin, end, AXIS, SHAPE)
    if PACK:  # noqa: SIM102  # a compile-time constant
        if ended:
            places, outside, ends = dev.load_unaligned_ends(x, first, length, -float("inf"), dev.acc_dtype(x), PACK)
            dev.store_unaligned_ends(out, first, length, places, outside, exponential(ends - top) * inverse)


@register("cutile", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store states. A second launch merges them and writes."""
    id, rows = "cutile/softmax/split_two_launches", rows_of(x, out)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    plan = tiles.plan_parts(rows, tile, device_of(x))
    # Each EXACT part has two ends, so that the last part needs at least 16 elements.
    block = tile.block_length
    exact = rows.single and rows.itemsize == 2 and block >= 2048 and rows.n % (plan.span * block) >= 16
    rows = rows.with_vector_loads if exact else rows
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, tile, x)
    source, target = tiles.make_views(rows, tile, (x, out), vector_size=pack)
    pairs = [tiles.part_workspace(rows, tile, plan, x, tiles.acc_dtype(x.dtype)) for _ in range(2)]
    sizes, constants, count = (rows.n, *plan), (tile.axis, tile.shape), tile.count_tiles(rows) * plan.parts
    fit = tile.programs_per_sm(rows, tiles.FIT, pack > 0)
    bind = partial(bind_launch, id, warps=tile.warps, grid=count, occupancy=fit)
    kinds = exact, pack, tile.elements_per_lane(rows), *constants
    leave = bind(partials_kernel, (x, out), (source, *pairs), sizes, kinds)
    write = bind(write_kernel, (x, out), (source, target, *pairs), sizes, (exact, plan.padded_parts, pack, *constants))
    return chain_launches(leave, write)
