import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def cumsum_kernel(x, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (total[:, None, :] + hl.cumsum(tile, dim=1)).to(out.dtype)
            total = total + tile.sum(1)


@register("helion", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A block's sums are a scan, a tree of additions; sums of whole blocks are added up in order."""
    x = plain(x)
    rows, views = tiles.problem(x, out)
    tile, wide = tile_of(x, rows), tiles.wide(x, out)
    return over_views("helion/cumsum/rows", cumsum_kernel, views, tile, (wide,), tile.blocks())
