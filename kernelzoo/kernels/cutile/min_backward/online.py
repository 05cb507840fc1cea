import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch
from kernelzoo.kernels.cutile.min_backward.fused import split_gradient
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


def count_equal(x, least, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return how many elements of each row equal its minimum ``least``, in the blocks [begin, end). Each lane counts in
    32 bits. After the loop, the lanes' counts are added up in 64 bits."""
    counts = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), ct.int32)
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # Backwards: the blocks that are read last are the likeliest to be still in cache when writing begins.
            place = dev.block_index(group, strip, first + last - 1 - i, AXIS)
            equal = dev.load_block(x, place, float("nan"), AXIS, SHAPE, WHOLE) == least
            counts = counts + dev.lane_sums(ct.astype(equal, ct.int32), AXIS, FOLD)
    return ct.sum(ct.astype(counts, ct.int64), AXIS, keepdims=True)


def write_gradient_blocks(x, out, least, min_grad, other_grad, group, strip, begin, end, AXIS, SHAPE):
    """Write gradients in the blocks [begin, end): ``min_grad`` where x equals ``least``, elsewhere ``other_grad``."""
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # The index is the loop's variable: see ``write_blocks`` of softmax/online.py.
            place = dev.block_index(group, strip, i, AXIS)
            result = ct.where(dev.load_block(x, place, float("nan"), AXIS, SHAPE, WHOLE) == least, min_grad, other_grad)
            ct.store(out, place, result, check_bounds=not WHOLE, allow_tma=False)


@ct.kernel
def online_kernel(x, y, grad, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    end, least = ct.num_tiles(x, AXIS, SHAPE), dev.load_per_row_acc(y, group, strip, AXIS, SHAPE)
    count = count_equal(x, least, group, strip, 0, end, FOLD, AXIS, SHAPE)
    min_grad, other_grad = split_gradient(dev.load_per_row_acc(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    write_gradient_blocks(x, out, least, min_grad, other_grad, group, strip, 0, end, AXIS, SHAPE)


@register("cutile", "min_backward", "online")
def online(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks counts the minima, in each lane. A second pass reads again and writes."""
    tensors = (x, y, grad, out)
    rows, others = layouts_of(x, out, y, grad)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    views, id = tiles.make_views(rows, tile, tensors, others), "cutile/min_backward/online"
    kinds = (tile.elements_per_lane(rows), tile.axis, tile.shape)
    fit = tile.programs_per_sm(rows, tiles.FIT)
    return bind_launch(id, online_kernel, tensors, views, (), kinds, tile.count_tiles(rows), tile.warps, occupancy=fit)
