"""A program takes the means of several rows, block by block, reads them again for their variances, and to write."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def layer_norm_kernel(x, weight, bias, out, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            total = total + x[o, c, i].to(wide).sum(1)
        mean = total / n
        squares = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            away = x[o, c, i].to(wide) - mean[:, None, :]
            squares = squares + (away * away).sum(1)
        scale = torch.rsqrt(squares / n + eps)
        for c in hl.tile(n):
            normal = (x[o, c, i].to(wide) - mean[:, None, :]) * scale[:, None, :]
            weights = weight[c].to(wide)[None, :, None]
            out[o, c, i] = (normal * weights + bias[c].to(wide)[None, :, None]).to(out.dtype)


@register("helion", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean first, then squared distances from it; then a row is read again, from cache, and written."""
    rows, (x_view, out_view) = tiles.problem(x, out)
    tile, views = tile_of(x, rows), (x_view, weight, bias, out_view)
    blocks = tile.outer, tile.inner, tile.cols, tile.cols, tile.cols
    return over_views("helion/layer_norm/rows", layer_norm_kernel, views, tile, (eps, tiles.wide(x)), blocks)
