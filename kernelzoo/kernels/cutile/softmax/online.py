"""After Milakov and Gimelshein, "Online normalizer calculation for softmax" (arXiv 1805.02867)."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, fast_inverse, lowest_finite, online_update
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


def lane_states(x, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return each lane's (max, sum) state over the blocks [begin, end)."""
    top = lowest_finite(x, dev.lane_shape(SHAPE, AXIS, FOLD))
    total = ct.zeros(top.shape, top.dtype)
    lost = total
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # Backwards: the blocks that are read last are the likeliest to be still in cache when writing begins.
            place = dev.block_index(group, strip, first + last - 1 - i, AXIS)
            block = dev.load_block(x, place, -float("inf"), AXIS, SHAPE, WHOLE)
            top, total, lost = online_update(top, total, lost, block, x, AXIS, FOLD)
    return top, dev.add_rounding_error(total, lost)


def write_blocks(x, out, top, inverse, group, strip, begin, end, AXIS, SHAPE):
    """Write the results of the blocks [begin, end). top: the rows' maxima. inverse: 1 / the rows' sums."""
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # A store waits for earlier stores at a barrier, unless its index is the loop's variable.
            place = dev.block_index(group, strip, i, AXIS)
            result = exponential(dev.load_block(x, place, -float("inf"), AXIS, SHAPE, WHOLE) - top) * inverse
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@ct.kernel
def online_kernel(
    x, out, n, PACK: ct.Constant[int], FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]
):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    inside, target = dev.whole_vectors(x, group * n, n, PACK), dev.whole_vectors(out, group * n, n, PACK)
    first_group, end = 0 if PACK else group, ct.num_tiles(inside, AXIS, SHAPE)
    top, total = lane_states(inside, first_group, strip, 0, end, FOLD, AXIS, SHAPE)
    row_top = ct.max(top, AXIS, keepdims=True)
    if PACK:
        places, outside, ends = dev.load_unaligned_ends(x, group * n, n, -float("inf"), dev.acc_dtype(x), PACK)
        row_top = ct.maximum(row_top, ct.max(ends, AXIS, keepdims=True))
        ends = exponential(ends - row_top)
    row_total = ct.sum(total * exponential(top - row_top), AXIS, keepdims=True)
    if PACK:
        row_total = row_total + ct.sum(ends, AXIS, keepdims=True)
    inverse = fast_inverse(row_total)
    write_blocks(inside, target, row_top, inverse, first_group, strip, 0, end, AXIS, SHAPE)
    if PACK:
        dev.store_unaligned_ends(out, group * n, n, places, outside, ends * inverse)


@register("cutile", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running (max, sum) state in each lane. A second pass reads again and writes."""
    id, rows = "cutile/softmax/online", rows_of(x, out)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    pack, tile = tiles.fit_tile_to_whole_vectors(rows, tile, x)
    views = tiles.make_views(rows, tile, (x, out), vector_size=pack)
    constants = pack, tile.elements_per_lane(rows), tile.axis, tile.shape
    occupancy, count = tile.programs_per_sm(rows, tiles.FIT, pack > 0), tile.count_tiles(rows)
    return bind_launch(id, online_kernel, (x, out), views, (rows.n,), constants, count, tile.warps, occupancy=occupancy)
