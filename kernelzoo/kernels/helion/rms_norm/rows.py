import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import held_of, tile_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def held_kernel(x, weight, out, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(wide)
        scale = torch.rsqrt((tile * tile).sum(1, keepdim=True) / n + eps)
        out[o, :, i] = (tile * scale * weight[:].to(wide)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def rms_norm_kernel(x, weight, out, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            squares, lost = add_exactly(squares, lost, (tile * tile).sum(1))
        scale = torch.rsqrt(whole(squares, lost) / n + eps)
        for c in hl.tile(n):
            weights = weight[c].to(wide)[None, :, None]
            out[o, c, i] = (x[o, c, i].to(wide) * scale[:, None, :] * weights).to(out.dtype)


@register("helion", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Rows that fit are held on chip; a longer one is read block by block, and again, from cache, to be written."""
    id, (rows, (x_view, out_view)) = "helion/rms_norm/rows", tiles.problem(x, out)
    views, kinds = (x_view, weight, out_view), (eps, tiles.wide(x))
    if tile := held_of(id, x, rows, 2):
        return over_views(id, held_kernel, views, tile, kinds, tile.blocks(0))
    tile = tile_of(x, rows)
    return over_views(id, rms_norm_kernel, views, tile, kinds, tile.blocks(2))
