"""A program adds up the squares of several rows, block by block, and reads them again to write."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def rms_norm_kernel(x, weight, out, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            squares = squares + (tile * tile).sum(1)
        scale = torch.rsqrt(squares / n + eps)
        for c in hl.tile(n):
            weights = weight[c].to(wide)[None, :, None]
            out[o, c, i] = (x[o, c, i].to(wide) * scale[:, None, :] * weights).to(out.dtype)


@register("helion", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Squares are added up block by block; then a row is read again, from cache, and written."""
    rows, (x_view, out_view) = tiles.problem(x, out)
    tile, views = tile_of(x, rows), (x_view, weight, out_view)
    blocks = tile.outer, tile.inner, tile.cols, tile.cols
    return over_views("helion/rms_norm/rows", rms_norm_kernel, views, tile, (eps, tiles.wide(x)), blocks)
