"""A program takes several rows, block by block: the least element of each row so far, and its place."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.kernels.shared.minimum import identity
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def argmin_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, i], nothing, dtype=wide)
        place = hl.zeros([o, i], dtype=torch.int64)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            low = torch.amin(tile, dim=1)  # NaN if there is one, which equals nothing: then only NaN are found
            found = (tile == low[:, None, :]) | (tile != tile)
            first = torch.amin(torch.where(found, c.index.to(torch.int64)[None, :, None], n), dim=1)
            lower = (low < least) | ((low != low) & (least == least))  # of equal ones the first stays
            least = torch.where(lower, low, least)
            place = torch.where(lower, first, place)
        out[o, i] = place


@register("helion", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The minimum of each block, and the first place where it is; a lower one than so far is kept."""
    rows, views = tiles.problem(x, out)
    tile, kinds = tile_of(x, rows), (identity(x.dtype), tiles.wide(x))
    return over_views("helion/argmin/rows", argmin_kernel, views, tile, kinds, (tile.outer, tile.inner, tile.cols))
