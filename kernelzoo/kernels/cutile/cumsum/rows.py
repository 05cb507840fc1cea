"""A program takes several rows, or one by blocks: sums within a block, plus those of the blocks before it, in order."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.shared.minimum import plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def cumsum_kernel(x, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    total = ct.zeros(dev.reduced_shape(SHAPE, AXIS, 1), dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        place = dev.block_index(group, strip, i, AXIS)
        tile = dev.load_tile(x, place, 0, AXIS, SHAPE)
        ct.store(out, place, ct.astype(total + ct.cumsum(tile, AXIS), out.dtype), allow_tma=False)
        total = total + ct.sum(tile, AXIS, keepdims=True)


@register("cutile", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block's sums are a scan, a tree of additions; sums of whole blocks are added up in order."""
    id, x = "cutile/cumsum/rows", plain(x)
    rows = rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    views, constants = tiles.make_views(rows, tile, (x, out)), (tile.axis, tile.shape)
    return bound(id, cumsum_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
