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
def held_kernel(x, weight, bias, out, eps: hl.constexpr, wide: torch.dtype):
    """What lies past a row's end is no part of a sum."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(wide)
        away = tile - tile.sum(1, keepdim=True) / n
        normal = away * torch.rsqrt((away * away).sum(1, keepdim=True) / n + eps)
        weights = weight[:].to(wide)[None, :, None]
        out[o, :, i] = (normal * weights + bias[:].to(wide)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def layer_norm_kernel(x, weight, bias, out, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total, lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, x[o, c, i].to(wide).sum(1))
        mean = whole(total, lost) / n
        squares, squares_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            away = x[o, c, i].to(wide) - mean[:, None, :]
            squares, squares_lost = add_exactly(squares, squares_lost, (away * away).sum(1))
        scale = torch.rsqrt(whole(squares, squares_lost) / n + eps)
        for c in hl.tile(n):
            normal = (x[o, c, i].to(wide) - mean[:, None, :]) * scale[:, None, :]
            weights = weight[c].to(wide)[None, :, None]
            out[o, c, i] = (normal * weights + bias[c].to(wide)[None, :, None]).to(out.dtype)


@register("helion", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean first, then distances from it. Rows that fit are held on chip; a longer one is read again."""
    id, (rows, (x_view, out_view)) = "helion/layer_norm/rows", tiles.problem(x, out)
    views, kinds = (x_view, weight, bias, out_view), (eps, tiles.wide(x))
    if tile := held_of(id, x, rows, 2):
        return over_views(id, held_kernel, views, tile, kinds, tile.blocks(0))
    tile = tile_of(x, rows)
    return over_views(id, layer_norm_kernel, views, tile, kinds, tile.blocks(3))
