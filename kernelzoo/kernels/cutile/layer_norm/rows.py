import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.sum.rows import sum_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def layer_norm_kernel(
    x, weight, bias, out, EPS: ct.Constant[int], HELD: ct.Constant[bool], FOLD: ct.Constant[int],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    """HELD: whether a tile contains complete rows. Each row is then read only once."""
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    if HELD:
        place = dev.block_index(group, strip, 0, AXIS)
        tile = dev.load_tile(x, place, 0.0, AXIS, SHAPE)
        mean = ct.sum(tile, AXIS, keepdims=True) / x.shape[AXIS]
        away = dev.subtract_mean(tile, mean, x, place, AXIS, SHAPE)
        scale = dev.inverse_root(ct.sum(away * away, AXIS, keepdims=True) / x.shape[AXIS], EPS)
        for WHOLE in ct.static_iter((True, False)):
            if dev.is_whole(x, place, SHAPE) == WHOLE:
                result = away * scale * dev.load_weights(weight, 0, AXIS, SHAPE, WHOLE)
                result = result + dev.load_weights(bias, 0, AXIS, SHAPE, WHOLE)
                ct.store(out, place, ct.astype(result, out.dtype), check_bounds=not WHOLE, allow_tma=False)
    else:
        count = ct.num_tiles(x, AXIS, SHAPE)
        mean = sum_of(x, group, strip, 0, count, FOLD, AXIS, SHAPE) / x.shape[AXIS]
        ranges = dev.block_ranges(x, group, strip, 0, count, AXIS, SHAPE)
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
    id, tensors, rows = "cutile/layer_norm/rows", (x, weight, bias, out), rows_of(x, out)
    held, tile, fit = tiles.whole_row_or_block(id, device_of(x), rows, 2)
    source, target = tiles.make_views(rows, tile, (x, out))
    views = source, *(tiles.weight_view(tile, one) for one in (weight, bias)), target
    constants, count = (tiles.float64_bits(eps), held, tile.fold(rows), tile.axis, tile.shape), tile.count(rows)
    return bound(id, layer_norm_kernel, tensors, views, (), constants, count, tile.warps, occupancy=fit)
