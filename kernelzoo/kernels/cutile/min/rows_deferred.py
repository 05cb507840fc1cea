"""Blocks of rows, or of columns side by side, whose running minimum stays a tile until they have ended."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.device_functions import ends, inside_of, tile_of
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min.device_functions import block_of, least_end, least_of, lower
from kernelzoo.kernels.cutile.min.tiles import block_tile, kinds, plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@ct.kernel
def rows_deferred_kernel(
    x, out, n, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], MASKED: ct.Constant[bool],
    PACK: ct.Constant[int], AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    inside, first = inside_of(x, group, n, PACK), 0 if PACK else group
    running = ct.full(SHAPE, IDENTITY, x.dtype)
    for i in range(ct.num_tiles(inside, AXIS, SHAPE)):
        running = lower(running, block_of(inside, first, strip, i, IDENTITY, FLOAT, MASKED, AXIS, SHAPE))
    least = least_of(running, AXIS)
    if PACK:
        least = lower(least, least_end(x, group, n, IDENTITY, PACK))
    ct.store(out, (group, strip), ct.reshape(least, ends(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows, or strips of columns; the running minimum stays a tile, reduced once, at the end."""
    id, x, out = "cutile/min/rows_deferred", plain(x), plain(out)
    rows = rows_of(x, out)
    pack, tile = tiles.ragged(rows, block_tile(device_of(x), rows), x)
    views, constants = tiles.seen_all(rows, tile, (x, out), pack=pack), kinds(rows, x.dtype, tile, pack)
    return bound(id, rows_deferred_kernel, (x, out), views, (rows.n,), constants, tile.count(rows), tile.warps)
