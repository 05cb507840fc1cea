"""A program adds up several rows, or a block of one at a time: a sum in each lane, and what it rounded off."""

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
def sum_kernel(x, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    total = ct.zeros(SHAPE, dev.acc_dtype(x))
    lost = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), 0, AXIS, SHAPE)
        total, lost = dev.add_exactly(total, lost, tile)
    result = ct.sum(dev.whole(total, lost), AXIS)
    ct.store(out, (group, strip), ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A sum in each lane with what it rounded off; lanes meet in a tree after the loop."""
    id, x = "cutile/sum/rows", plain(x)
    rows = rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    views, constants = tiles.make_views(rows, tile, (x, out)), (tile.axis, tile.shape)
    return bound(id, sum_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
