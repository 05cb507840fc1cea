"""A program takes several rows, or a block of one at a time: a running (max, sum) state in each lane, in one pass."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import device_functions as dev
from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.softmax.device_functions import exponential, lowest
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def logsumexp_kernel(x, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    ct.grid_dependency_control_wait()
    group, strip = dev.tile_coords(ct.bid(0), x, AXIS, SHAPE)
    # A maximum starts at the lowest finite number, so that no difference of two is -inf - -inf.
    top = lowest(x, SHAPE)
    total = ct.zeros(SHAPE, dev.acc_dtype(x))
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        tile = dev.load_tile(x, dev.block_index(group, strip, i, AXIS), -float("inf"), AXIS, SHAPE)
        rise = ct.where(tile == top, 0.0, tile - top)  # inf - inf would be NaN
        # Of exp(top - new top) and exp(tile - new top) one is 1, and this is the other.
        scale = exponential(-ct.abs(rise))
        total = ct.where(rise > 0, total * scale + 1, total + scale)
        top = ct.maximum(top, tile)
    row_top = ct.max(top, AXIS, keepdims=True)  # a NaN may be lost here: it is in the sum
    row_total = ct.sum(total * exponential(ct.where(top == row_top, 0.0, top - row_top)), AXIS, keepdims=True)
    result = ct.reshape(row_top + ct.log(row_total), dev.row_shape(SHAPE, AXIS))
    ct.store(out, (group, strip), ct.astype(result, out.dtype), allow_tma=False)


@register("cutile", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass that keeps a running (max, sum) state in each lane; lanes meet after the loop."""
    id, rows = "cutile/logsumexp/rows", rows_of(x, out)
    tile = tiles.plain(rows, device_of(x), 2)
    views, constants = tiles.make_views(rows, tile, (x, out)), (tile.axis, tile.shape)
    return bound(id, logsumexp_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
