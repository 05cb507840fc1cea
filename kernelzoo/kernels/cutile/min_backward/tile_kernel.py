"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a tile."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.min_backward.words import one_a_row, shares_of
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.kernels.cutile.words import block_at, taken, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with


@ct.kernel
def tile_kernel(x, y, grad, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """One read, one write."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    place = block_at(group, strip, 0, AXIS)
    equal = taken(x, place, float("nan"), AXIS, SHAPE) == one_a_row(y, group, strip, AXIS, SHAPE)
    count = ct.sum(ct.astype(equal, ct.int32), AXIS, keepdims=True)
    each, rest = shares_of(one_a_row(grad, group, strip, AXIS, SHAPE), count, out.dtype)
    ct.store(out, place, ct.where(equal, each, rest), allow_tma=False)


def launch_of_tiles(
    id: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tile: Tile
) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: x, y, grad and out."""
    x, y, grad, out = tensors
    rows, others = rows_with(x, out, y, grad)
    views = tiles.seen_all(rows, tile, tensors, others)
    return bound(id, tile_kernel, tensors, views, (), (tile.axis, tile.shape), tile.count(rows), tile.warps)
