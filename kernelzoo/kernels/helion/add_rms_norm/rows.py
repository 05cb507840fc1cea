import helion
import helion.language as hl
import torch
from torch import Tensor

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import held_of, tile_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def held_kernel(x, residual, weight, out, total, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        rounded = (x[o, :, i].to(wide) + residual[o, :, i].to(wide)).to(total.dtype)
        total[o, :, i] = rounded
        tile = rounded.to(wide)
        scale = torch.rsqrt((tile * tile).sum(1, keepdim=True) / n + eps)
        out[o, :, i] = (tile * scale * weight[:].to(wide)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def add_rms_norm_kernel(x, residual, weight, out, total, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            rounded = (x[o, c, i].to(wide) + residual[o, c, i].to(wide)).to(total.dtype)
            total[o, c, i] = rounded
            squares, lost = add_exactly(squares, lost, (rounded.to(wide) * rounded.to(wide)).sum(1))
        scale = torch.rsqrt(whole(squares, lost) / n + eps)
        for c in hl.tile(n):
            weights = weight[c].to(wide)[None, :, None]
            rounded = (x[o, c, i].to(wide) + residual[o, c, i].to(wide)).to(total.dtype)
            out[o, c, i] = (rounded.to(wide) * scale[:, None, :] * weights).to(out.dtype)


@register("helion", "add_rms_norm", "rows")
def rows(x: Tensor, residual: Tensor, weight: Tensor, out: Tensor, total: Tensor, eps: float) -> Launch:
    """Rows that fit are held on chip; of longer ones both inputs are read and added again, from cache."""
    id = "helion/add_rms_norm/rows"
    rows, (x_view, residual_view, total_view, out_view) = tiles.problem(x, out, residual, total)
    views, kinds = (x_view, residual_view, weight, out_view, total_view), (eps, tiles.wide(x))
    if tile := held_of(id, x, rows, 2):
        return over_views(id, held_kernel, views, tile, kinds, tile.blocks(0))
    tile = tile_of(x, rows, 2)
    return over_views(id, add_rms_norm_kernel, views, tile, kinds, tile.blocks(2))
