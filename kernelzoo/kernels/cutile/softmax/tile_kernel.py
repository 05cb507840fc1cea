"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a tile, and split_cluster several blocks to one."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.softmax.words import softmax_of
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.kernels.cutile.words import block_at, taken, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@ct.kernel
def tile_kernel(x, out, AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple]):
    """One read, one write. Along rows the tile is the power of two that holds one: past its end it is -inf."""
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    place = block_at(group, strip, 0, AXIS)
    result = softmax_of(taken(x, place, -float("inf"), AXIS, SHAPE), AXIS)
    ct.store(out, place, ct.astype(result, out.dtype), allow_tma=False)


def launch_of_tiles(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile, blocks: int = 1) -> Launch:
    """The launch of tile_kernel over a problem's tiles, each held by so many blocks."""
    views, constants = tiles.seen_all(rows, tile, (x, out)), (tile.axis, tile.shape)
    return bound(id, tile_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps, blocks)
