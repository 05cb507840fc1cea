import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.min.device_functions import load_padded
from kernelzoo.launch import Launch
from kernelzoo.layout import min_identity, rows_of
from kernelzoo.registry import register

PAST = 2**63 - 1
"""An index above all others, so that a padding element never wins against an equal element."""


def select_lesser(a, i, b, j):
    """Return (smaller element, its index). NaN counts as the smallest. Among equal elements, the smaller index wins."""
    equal = (a == b) | ((a != a) & (b != b))
    less = (a < b) | ((a != a) & (b == b)) | (equal & (i < j))
    return ct.where(less, a, b), ct.where(less, i, j)


def find_minima_and_indices(x, group, strip, begin, end, IDENTITY, FLOAT, LANE_ELEMENTS, AXIS, SHAPE):
    """Return (least element, its index) of each row in the blocks [begin, end). In the loop, a lane records only the
    block of its least element. Then the LANE_ELEMENTS elements of a row's least lane are searched for the index."""
    least = ct.full(dev.lane_shape(SHAPE, AXIS, LANE_ELEMENTS), IDENTITY, x.dtype)
    blocks = ct.zeros(least.shape, ct.int32) + begin
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            if WHOLE:
                tile = ct.load(x, dev.block_index(group, strip, i, AXIS), SHAPE, check_bounds=False, allow_tma=False)
            else:
                tile = load_padded(x, group, strip, i, IDENTITY, FLOAT, not FLOAT, AXIS, SHAPE)
            if AXIS == 2:
                tile = ct.min(ct.reshape(tile, (*least.shape, LANE_ELEMENTS)), 3, propagate_nan=True)
            lower = ~(tile >= least) & (least == least)  # NaN is the least; of equal elements, the first wins
            least, blocks = ct.where(lower, tile, least), ct.where(lower, i, blocks)
    places = ct.astype(blocks, ct.int64) * least.shape[AXIS] + dev.element_indices(0, AXIS, least.shape)
    least, places = ct.reduce((least, places), AXIS, select_lesser, (IDENTITY, PAST))
    least, places = ct.expand_dims(least, AXIS), ct.expand_dims(places, AXIS)
    if AXIS == 1:
        return least, places
    places = places * LANE_ELEMENTS + ct.reshape(ct.arange(LANE_ELEMENTS, dtype=ct.int64), (1, 1, LANE_ELEMENTS))
    found = dev.gather_elements(x, group, strip, places, places < x.shape[2], IDENTITY, AXIS, SHAPE)
    sought = (places < x.shape[2]) & ((found == least) | (found != found))
    return least, ct.min(ct.where(sought, places, PAST), 2, keepdims=True)


@ct.kernel
def argmin_kernel(
    x, out, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    end = ct.num_tiles(x, AXIS, SHAPE)
    _, place = find_minima_and_indices(x, group, strip, 0, end, IDENTITY, FLOAT, FOLD, AXIS, SHAPE)
    ct.store(out, (group, strip), ct.reshape(place, dev.per_row_shape(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each lane records its least element and that element's block number. Lanes are compared after the loop."""
    id, rows = "cutile/argmin/rows", rows_of(x, out)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 1, tiles.READ_BYTES)
    views, floats = tiles.make_views(rows, tile, (x, out)), x.dtype.is_floating_point
    constants = (min_identity(x.dtype), floats, tile.elements_per_lane(rows), tile.axis, tile.shape)
    return bind_launch(id, argmin_kernel, (x, out), views, (), constants, tile.count_tiles(rows), tile.warps)
