"""Blocks of rows, whose running minimum stays a tile until they have ended: the kernel of rows_deferred_block, and
along another axis, of columns."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound
from kernelzoo.kernels.cutile.min.tiles import kinds
from kernelzoo.kernels.cutile.min.words import block_of, least_of, lower
from kernelzoo.kernels.cutile.tiles import Tile
from kernelzoo.kernels.cutile.words import ends, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import Rows


@ct.kernel
def rows_deferred_kernel(
    x, out, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], RAGGED: ct.Constant[bool],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    running = ct.full(SHAPE, IDENTITY, x.dtype)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        running = lower(running, block_of(x, group, strip, i, IDENTITY, FLOAT, RAGGED, AXIS, SHAPE))
    ct.store(out, (group, strip), ct.reshape(least_of(running, AXIS), ends(SHAPE, AXIS)), allow_tma=False)


def launch_deferred(id: str, x: torch.Tensor, out: torch.Tensor, rows: Rows, tile: Tile) -> Launch:
    """The launch of rows_deferred_kernel over a problem's tiles."""
    views, constants = tiles.seen_all(rows, tile, (x, out)), kinds(rows, x.dtype, tile)
    return bound(id, rows_deferred_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
