"""A program adds up the squares of several rows, or of a block at a time, and reads them again to write."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def rms_norm_kernel(
    x, weight, out, EPS: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    squares = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), 0.0, AXIS, SHAPE)
        squares, lost = dev.add_exactly(squares, lost, tile * tile)
    mean = dev.row_mean(squares, lost, x, AXIS)
    scale = 1 / ct.sqrt(mean + dev.constant(EPS, mean.dtype))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        result = dev.load_tile(x, place, 0.0, AXIS, SHAPE) * scale * dev.weights_of(weight, i, AXIS, SHAPE)
        ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Squares are added up in each lane; then a row is read again, from cache, and written."""
    id, rows = "cutile/rms_norm/rows", rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    source, target = tiles.make_views(rows, tile, (x, out))
    views, constants = (source, tiles.of_elements(tile, weight), target), (tiles.bits(eps), tile.axis, tile.shape)
    return bound(id, rms_norm_kernel, (x, weight, out), views, (), constants, tile.count(rows), tile.warps)
