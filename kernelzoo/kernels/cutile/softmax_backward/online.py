import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register

FIT = 3
"""How many programs must fit on an SM. A thread then has 80 registers, for blocks of two inputs."""


def product_sums(grad, y, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return each row's sum of grad * y over the blocks [begin, end). Each lane first adds up its own products."""
    running = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(grad))
    lost = running
    ranges = dev.inside_and_edge_ranges(grad, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # Backwards: the blocks that are read last are the likeliest to be still in cache when writing begins.
            place = dev.block_index(group, strip, first + last - 1 - i, AXIS)
            grads = dev.load_block(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = dev.load_block(y, place, 0.0, AXIS, SHAPE, WHOLE)
            running, lost = dev.accumulate(running, lost, dev.lane_sums(grads * weights, AXIS, FOLD), grad)
    return ct.sum(dev.add_rounding_error(running, lost), AXIS, keepdims=True)


def write_blocks(grad, y, out, total, group, strip, begin, end, AXIS, SHAPE):
    """Write the results of the blocks [begin, end). total: each row's sum of grad * y."""
    ranges = dev.inside_and_edge_ranges(grad, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            # The index is the loop's variable: see ``write_blocks`` of softmax/online.py.
            place = dev.block_index(group, strip, i, AXIS)
            grads = dev.load_block(grad, place, 0.0, AXIS, SHAPE, WHOLE)
            weights = dev.load_block(y, place, 0.0, AXIS, SHAPE, WHOLE)
            result = weights * (grads - total)
            ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@ct.kernel
def online_kernel(grad, y, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), grad, AXIS, SHAPE)
    end = ct.num_tiles(grad, AXIS, SHAPE)
    total = product_sums(grad, y, group, strip, 0, end, FOLD, AXIS, SHAPE)
    write_blocks(grad, y, out, total, group, strip, 0, end, AXIS, SHAPE)


@register("cutile", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks keeps a running sum in each lane. A second pass reads again and writes."""
    tensors = (grad, y, out)
    rows, others = layouts_of(grad, out, y)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES, 2)
    views, id = tiles.make_views(rows, tile, tensors, others), "cutile/softmax_backward/online"
    kinds = (tile.elements_per_lane(rows), tile.axis, tile.shape)
    fit = tile.programs_per_sm(rows, FIT)
    return bind_launch(id, online_kernel, tensors, views, (), kinds, tile.count_tiles(rows), tile.warps, occupancy=fit)
