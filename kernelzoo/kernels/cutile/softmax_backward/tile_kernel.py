"""A tile of whole rows of both inputs to a program, which it holds on chip: one kernel, of which fused, multi_row_tile
and columns have each a tile. Past a row's end both inputs are 0, and so add nothing."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax_backward.words import both
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.kernels.cutile.words import block_at, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with


@ct.kernel
def tile_kernel(grad, y, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """Each input is read once, and the result written."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), grad, AXIS, SHAPE)
    place = block_at(group, strip, 0, AXIS)
    grads, weights = both(grad, y, place, AXIS, SHAPE)
    result = weights * (grads - ct.sum(grads * weights, AXIS, keepdims=True))
    ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


def launch_of_tiles(id: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor], tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: grad, y and out."""
    grad, y, out = tensors
    rows, others = rows_with(grad, out, y)
    views = tiles.seen_all(rows, tile, tensors, others)
    return bound(id, tile_kernel, tensors, views, (), (tile.axis, tile.shape), tile.count(rows), tile.warps)
