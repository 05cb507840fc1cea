"""A program takes the means of several rows, or of one in blocks, reads them for their variances, and to write."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


def mean_of(x, group, strip, AXIS, SHAPE):
    """The mean of each of a tile's rows."""
    total = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), 0.0, AXIS, SHAPE)
        total, lost = dev.add_exactly(total, lost, tile)
    return dev.row_mean(total, lost, x, AXIS)


@ct.kernel
def layer_norm_kernel(
    x, weight, bias, out, EPS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    mean = mean_of(x, group, strip, AXIS, SHAPE)
    squares = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        # Past a row's end there is its mean, which is no distance away.
        away = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), mean, AXIS, SHAPE) - mean
        squares, lost = dev.add_exactly(squares, lost, away * away)
    variance = dev.row_mean(squares, lost, x, AXIS)
    scale = 1 / ct.sqrt(variance + dev.constant(EPS, mean.dtype))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        normal = (dev.load_tile(x, place, mean, AXIS, SHAPE) - mean) * scale
        result = normal * dev.weights_of(weight, i, AXIS, SHAPE) + dev.weights_of(bias, i, AXIS, SHAPE)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean first, then squared distances from it; then a row is read again, from cache, and written."""
    id, tensors, rows = "cutile/layer_norm/rows", (x, weight, bias, out), rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    source, target = tiles.make_views(rows, tile, (x, out))
    views = (source, *(tiles.of_elements(tile, one) for one in (weight, bias)), target)
    constants = (tiles.bits(eps), tile.axis, tile.shape)
    return bound(id, layer_norm_kernel, tensors, views, (), constants, tile.count(rows), tile.warps)
