import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import bool_as_uint8, rows_of
from kernelzoo.registry import register


def combine_sums(left_sum_before_last, left_sum, right_sum_before_last, right_sum):
    """Combine two ranges' (sum without the last vector, sum). Subtracting the last one could give inf - inf."""
    return left_sum + right_sum_before_last, left_sum + right_sum


def scan_block(tile, total, dtype, FOLD, AXIS):
    """Return (``total`` plus the block's running sums, ``total`` plus the block's sum). In contiguous rows, each vector
    of FOLD elements is scanned, then earlier vectors' sums are added. Rounding to ``dtype`` makes reshaping cheaper."""
    if AXIS == 1:
        return ct.astype(total + ct.cumsum(tile, 1), dtype), total + ct.sum(tile, 1, keepdims=True)
    strip = tile.shape[:2]
    vectors = ct.reshape(tile, (*strip, tile.shape[2] // FOLD, FOLD))
    totals = ct.sum(vectors, 3)
    before, up_to = ct.scan((ct.zeros(totals.shape, totals.dtype), totals), 2, combine_sums, (0, 0))
    sums = ct.astype(ct.expand_dims(total + before, 3) + ct.cumsum(vectors, 3), dtype)
    return ct.reshape(sums, tile.shape), total + ct.extract(up_to, (0, 0, totals.shape[2] - 1), (*strip, 1))


def write_sums(x, out, total, group, strip, begin, end, FOLD, AXIS, SHAPE):
    """Write the running sums of the blocks [begin, end). total: each row's sum of all earlier elements."""
    ranges = dev.inside_and_edge_ranges(x, group, strip, begin, end, AXIS, SHAPE)
    for WHOLE, first, last in ct.static_iter(ranges):
        for i in range(first, last):
            place = dev.block_index(group, strip, i, AXIS)
            tile = dev.load_block(x, place, 0, AXIS, SHAPE, WHOLE)
            result, total = scan_block(tile, total, out.dtype, FOLD, AXIS)
            ct.store(out, place, result, check_bounds=not WHOLE, allow_tma=False)


@ct.kernel
def cumsum_kernel(x, out, FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    total = ct.zeros(dev.reduced_shape(SHAPE, AXIS, 1), dev.acc_dtype(x))
    write_sums(x, out, total, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), FOLD, AXIS, SHAPE)


@register("cutile", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Each block is scanned by a tree of additions. The sums of whole blocks are added up in order."""
    id, x = "cutile/cumsum/rows", bool_as_uint8(x)
    rows = rows_of(x, out)
    tile = tiles.short_rows_or_loop_tile(rows, device_of(x), 2)
    views, kinds = tiles.make_views(rows, tile, (x, out)), (tile.elements_per_lane(rows), tile.axis, tile.shape)
    many = tiles.FIT * (1 + x.is_floating_point())  # programs of 128 threads; sums of integers have 64 bits
    fit = tile.programs_per_sm(rows, many, unaligned_in_vectors=True)
    return bind_launch(id, cumsum_kernel, (x, out), views, (), kinds, tile.count_tiles(rows), tile.warps, occupancy=fit)
