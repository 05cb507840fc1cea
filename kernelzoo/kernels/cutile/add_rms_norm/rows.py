import cuda.tile as ct
from torch import Tensor

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import layouts_of
from kernelzoo.registry import register


@ct.kernel
def add_rms_norm_kernel(
    x, residual, weight, out, total, EPS: ct.Constant[int], HELD: ct.Constant[bool], LATE: ct.Constant[bool],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """HELD: whether a tile contains complete rows, so that each is read once. LATE: whether weights are loaded last."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    if HELD:
        place = dev.block_index(group, strip, 0, AXIS)
        rounded = ct.astype(dev.load_sum(x, residual, place, SHAPE), total.dtype)
        ct.store(total, place, rounded, allow_tma=False)
        tile = ct.astype(rounded, dev.acc_dtype(x))
        scale = dev.inverse_root(ct.sum(tile * tile, AXIS, keepdims=True) / x.shape[AXIS], EPS)
        for WHOLE in ct.static_iter((True, False) if LATE else (None,)):
            if WHOLE is None or dev.tile_is_inside(x, place, SHAPE) == WHOLE:
                result = tile * scale * dev.load_weights(weight, 0, AXIS, SHAPE, WHOLE)
                ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not (LATE and WHOLE), allow_tma=False)
    else:
        squares = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(x))
        lost = squares
        ranges = dev.inside_and_edge_ranges(x, group, strip, 0, ct.num_tiles(x, AXIS, SHAPE), AXIS, SHAPE)
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                place = dev.block_index(group, strip, i, AXIS)
                beside = dev.load_block(residual, place, 0.0, AXIS, SHAPE, WHOLE)
                rounded = ct.astype(dev.load_block(x, place, 0.0, AXIS, SHAPE, WHOLE) + beside, total.dtype)
                ct.store(total, place, rounded, check_bounds=not WHOLE, allow_tma=False)
                tile = ct.astype(rounded, squares.dtype)
                squares, lost = dev.accumulate(squares, lost, dev.lane_sums(tile * tile, AXIS, FOLD), x)
        scale = dev.inverse_root(dev.row_mean(squares, lost, x, AXIS), EPS)
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                place = dev.block_index(group, strip, i, AXIS)
                result = dev.load_block(total, place, 0.0, AXIS, SHAPE, WHOLE) * scale
                result = result * dev.load_weights(weight, i, AXIS, SHAPE, WHOLE)
                ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "add_rms_norm", "rows")
def rows(x: Tensor, residual: Tensor, weight: Tensor, out: Tensor, total: Tensor, eps: float) -> Launch:
    """A row that fits on chip is read once. For a longer row, a second pass reads the stored sums and scales them."""
    id, device = "cutile/add_rms_norm/rows", device_of(x)
    rows, others = layouts_of(x, out, residual, total)
    late = rows.planned >= 8 * device.multiprocessors
    held, tile, fit = tiles.whole_row_or_block_plan(id, device, rows, 2, late)
    source, beside, sums, target = tiles.make_views(rows, tile, (x, residual, total, out), others)
    views = source, beside, tiles.weight_view(tile, weight), target, sums
    constants = tiles.float64_bits(eps), held, late, tile.elements_per_lane(rows), tile.axis, tile.shape
    tensors, count = (x, residual, weight, out, total), tile.count_tiles(rows)
    return bind_launch(id, add_rms_norm_kernel, tensors, views, (), constants, count, tile.warps, occupancy=fit)
