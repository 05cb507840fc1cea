import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import identity
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def argmin_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above. Each lane keeps its least element so far, and the number of its block."""
    outer, n, inner = x.size()
    block = hl.register_block_size(n)
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, block, i], nothing, dtype=wide)
        number = hl.zeros([o, block, i], dtype=torch.int32)
        for c in hl.tile(n, block_size=block):
            tile = torch.where((c.index < n)[None, :, None], x[o, c, i].to(wide), nothing)
            lower = ~(tile >= least) & (least == least)  # a NaN is less than all others, and the first stays
            least, number = torch.where(lower, tile, least), torch.where(lower, c.id, number)
        low = torch.amin(least, dim=1)  # NaN if there is one, which equals nothing: then only NaN are found
        found = (least == low[:, None, :]) | (least != least)
        place = number.to(torch.int64) * block + hl.arange(block)[None, :, None]
        out[o, i] = torch.amin(torch.where(found, place, n), dim=1)


@register("helion", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """In each lane the least element so far and its block; lanes meet after the loop."""
    rows, views = tiles.problem(x, out)
    tile, kinds = tile_of(x, rows), (identity(x.dtype), tiles.wide(x))
    return over_views("helion/argmin/rows", argmin_kernel, views, tile, kinds, (tile.cols, tile.outer, tile.inner))
