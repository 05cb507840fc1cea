import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bind_launch, device_of
from kernelzoo.kernels.cutile.sum.rows import sum_rows
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def layer_norm_kernel(
    x, weight, bias, out, EPS: ct.Constant[int], HELD: ct.Constant[bool], LATE: ct.Constant[bool],
    FOLD: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """HELD: whether a tile contains complete rows, so that each is read once. LATE: whether weights are loaded last."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    if HELD:
        place = dev.block_index(group, strip, 0, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE)
        mean = ct.sum(tile, AXIS, keepdims=True) / x.shape[AXIS]
        away = dev.subtract_mean(tile, mean, x, place, AXIS, SHAPE)
        scale = dev.inverse_root(ct.sum(away * away, AXIS, keepdims=True) / x.shape[AXIS], EPS)
        for WHOLE in ct.static_iter((True, False) if LATE else (None,)):
            if WHOLE is None or dev.tile_is_inside(x, place, SHAPE) == WHOLE:
                result = away * scale * dev.load_weights(weight, 0, AXIS, SHAPE, WHOLE)
                result = result + dev.load_weights(bias, 0, AXIS, SHAPE, WHOLE)
                ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not (LATE and WHOLE), allow_tma=False)
    else:
        count = ct.num_tiles(x, AXIS, SHAPE)
        mean = sum_rows(x, group, strip, 0, count, FOLD, AXIS, SHAPE) / x.shape[AXIS]
        ranges = dev.inside_and_edge_ranges(x, group, strip, 0, count, AXIS, SHAPE)
        squares = ct.zeros(dev.lane_shape(SHAPE, AXIS, FOLD), dev.acc_dtype(x))
        lost = squares
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                # Elements past a row's end are replaced by its mean, so that their distance is 0.
                away = dev.load_block(x, dev.block_index(group, strip, i, AXIS), mean, AXIS, SHAPE, WHOLE) - mean
                squares, lost = dev.accumulate(squares, lost, dev.lane_sums(away * away, AXIS, FOLD), x)
        scale = dev.inverse_root(dev.row_mean(squares, lost, x, AXIS), EPS)
        for WHOLE, first, last in ct.static_iter(ranges):
            for i in range(first, last):
                place = dev.block_index(group, strip, i, AXIS)
                result = (dev.load_block(x, place, mean, AXIS, SHAPE, WHOLE) - mean) * scale
                result = result * dev.load_weights(weight, i, AXIS, SHAPE, WHOLE)
                result = result + dev.load_weights(bias, i, AXIS, SHAPE, WHOLE)
                ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)


@register("cutile", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean comes first, then squared distances from it. A row that doesn't fit on chip is read three times."""
    id, device, rows = "cutile/layer_norm/rows", device_of(x), rows_of(x, out)
    late = rows.planned >= 8 * device.multiprocessors
    held, tile, fit = tiles.whole_row_or_block_plan(id, device, rows, 2, late)
    source, target = tiles.make_views(rows, tile, (x, out))
    views = source, *(tiles.weight_view(tile, one) for one in (weight, bias)), target
    constants = tiles.float64_bits(eps), held, late, tile.elements_per_lane(rows), tile.axis, tile.shape
    tensors, count = (x, weight, bias, out), tile.count_tiles(rows)
    return bind_launch(id, layer_norm_kernel, tensors, views, (), constants, count, tile.warps, occupancy=fit)
