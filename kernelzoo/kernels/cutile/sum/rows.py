import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


def sum_rows(x, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Return each row's sum over the blocks [begin, end). Each lane sums its elements, and compensates rounding."""
    total = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(x))
    lost = total
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            tile = dev.load_block(x, dev.block_index(group, strip, i, AXIS), 0, AXIS, SHAPE, WHOLE)
            total, lost = dev.accumulate(total, lost, dev.lane_sums(tile, AXIS, FOLD), x)
    return ct.sum(dev.add_rounding_error(total, lost), AXIS, keepdims=True)


@ct.kernel
def sum_kernel(x, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    sums = sum_rows(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE)
    ct.store(
        out, (group, strip), ct.reshape(ct.astype(sums, out.dtype), dev.per_row_shape(SHAPE, AXIS)), allow_tma=False
    )


@register("cutile", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each lane sums its elements, and compensates for rounding. Lanes are added in a tree after the loop."""
    id, x = "cutile/sum/rows", bool_as_uint8(x)
    rows = rows_of(x, out)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 1, tiles.READ_BYTES)
    views, constants = tiles.make_views(rows, tile, (x, out)), (tile.elements_per_lane(rows), tile.axis, tile.shape)
    return bind_launch(id, sum_kernel, (x, out), views, (), constants, tile.count_tiles(rows), tile.warps)
