"""(max, sum) states of rows: each row's maximum, and its sum of exp(x - max).

Maxima are clamped to finite numbers, so that their difference is never inf - inf. A row with +inf has an infinite sum.
A row of only -inf has the sum 0. ``ct.max`` may ignore a NaN, but the sum is NaN then."""

import cuda.tile as ct

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, lowest_finite


def update_lane_states(top, x, AXIS, FOLD):
    """Return each lane's (new maximum, sum of exp(x - new maximum)) for a block x. top: the lanes' previous maxima."""
    if AXIS == 1:
        higher = ct.minimum(ct.maximum(top, x), -lowest_finite(x, top.shape))
        return higher, exponential(x - higher)
    vectors = ct.reshape(x, (*top.shape, FOLD))
    higher = ct.minimum(ct.maximum(top, ct.max(vectors, 3)), -lowest_finite(x, top.shape))
    return higher, ct.sum(exponential(vectors - ct.expand_dims(higher, 3)), 3)


def row_state(x, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return each row's (max, sum) state over the blocks [begin, end), in one pass."""
    top = lowest_finite(x, dev.lane_shape(SHAPE, AXIS, FOLD))
    total = ct.zeros(top.shape, top.dtype)
    lost = total
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            tile = dev.load_block(x, dev.block_index(group, strip, i, AXIS), -float("inf"), AXIS, SHAPE, WHOLE)
            higher, terms = update_lane_states(top, tile, AXIS, FOLD)
            scale = exponential(top - higher)
            total, lost = dev.accumulate(total * scale, lost * scale, terms, x)
            top = higher
    return merge_states(top, dev.add_rounding_error(total, lost), AXIS)


def merge_states(top, total, AXIS):
    """Merge the states along AXIS into one state. The axis remains, with size 1."""
    row_top = ct.max(top, AXIS, keepdims=True)
    return row_top, ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)


@ct.kernel
def states_kernel(
    x, tops, totals, parts, span, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    """Each program reads span blocks of a tile's rows, and stores one state per row."""
    ct.grid_dependency_control_wait()
    group, strip, part, begin, end = dev.part_coords(x, parts, span, AXIS, SHAPE)
    top, total = row_state(x, group, strip, begin, end, FOLD, AXIS, SHAPE)
    ct.store(tops, dev.block_index(group, strip, part, AXIS), top, allow_tma=False)
    ct.store(totals, dev.block_index(group, strip, part, AXIS), total, allow_tma=False)


def load_merged_state(tops, totals, group, strip, AXIS, SHAPE):
    """Load the states of all parts of each row, which SHAPE covers, and return them merged into one state per row."""
    place = dev.block_index(group, strip, 0, AXIS)
    every_top = ct.load(tops, place, SHAPE, padding_mode=ct.PaddingMode.NEG_INF, allow_tma=False)
    return merge_states(every_top, dev.load_zero_padded(totals, place, SHAPE), AXIS)
