"""A program takes whole rows, several short ones or one, and reduces each block of a row to a scalar at once."""

import cuda.tile as ct
import torch

from kernelzoo.kernels.cutile import tiles
from kernelzoo.kernels.cutile.launch import bound, device_of
from kernelzoo.kernels.cutile.min.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.cutile.min.tiles import Numbers, kinds, plain, row_tile
from kernelzoo.kernels.cutile.min.words import block_of, least_of, lower
from kernelzoo.kernels.cutile.words import ends, slim, tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@ct.kernel
def rows_kernel(
    x, out, IDENTITY: ct.Constant, FLOAT: ct.Constant[bool], RAGGED: ct.Constant[bool],
    AXIS: ct.Constant[int], SHAPE: ct.Constant[tuple],
):  # fmt: skip
    ct.grid_dependency_control_wait()
    group, strip = tile_of(ct.bid(0), x, AXIS, SHAPE)
    least = ct.full(slim(SHAPE, AXIS, 1), IDENTITY, x.dtype)
    for i in range(ct.num_tiles(x, AXIS, SHAPE)):
        block = block_of(x, group, strip, i, IDENTITY, FLOAT, RAGGED, AXIS, SHAPE)
        least = lower(least, least_of(block, AXIS))
    ct.store(out, (group, strip), ct.reshape(least, ends(SHAPE, AXIS)), allow_tma=False)


@register("cutile", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    knobs = of(Numbers, device_of(x).index)
    tile = row_tile(knobs, knobs.block_bytes, rows)
    if tile.shape[:2] == (1, 1) and tiles.is_ragged(rows, x):
        return launch_of_ragged("cutile/min/rows", x, out, rows, tile)
    views, constants = tiles.seen_all(rows, tile, (x, out)), kinds(rows, x.dtype, tile)
    return bound("cutile/min/rows", rows_kernel, (x, out), views, (), constants, tile.count(rows), tile.warps)
