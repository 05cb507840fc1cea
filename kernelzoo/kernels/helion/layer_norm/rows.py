import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile, whole_row_tile_or_none
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def held_kernel(x, weight, bias, out, eps: hl.constexpr, acc_dtype: torch.dtype):
    """Sums need no mask, because Helion excludes elements past a row's end."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(acc_dtype)
        away = tile - tile.sum(1, keepdim=True) / n
        normal = away * torch.rsqrt((away * away).sum(1, keepdim=True) / n + eps)
        weights = weight[:].to(acc_dtype)[None, :, None]
        out[o, :, i] = (normal * weights + bias[:].to(acc_dtype)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def layer_norm_kernel(x, weight, bias, out, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total, lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, x[o, c, i].to(acc_dtype).sum(1))
        mean = add_rounding_error(total, lost) / n
        squares, squares_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            away = x[o, c, i].to(acc_dtype) - mean[:, None, :]
            squares, squares_lost = add_exactly(squares, squares_lost, (away * away).sum(1))
        scale = torch.rsqrt(add_rounding_error(squares, squares_lost) / n + eps)
        for c in hl.tile(n):
            normal = (x[o, c, i].to(acc_dtype) - mean[:, None, :]) * scale[:, None, :]
            weights = weight[c].to(acc_dtype)[None, :, None]
            out[o, c, i] = (normal * weights + bias[c].to(acc_dtype)[None, :, None]).to(out.dtype)


@register("helion", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """The mean comes first, then squared distances from it. A row that doesn't fit on chip is read three times."""
    id, (rows, (x_view, out_view)) = "helion/layer_norm/rows", tiles.rows_and_views(x, out)
    views, kinds = (x_view, weight, bias, out_view), (eps, tiles.acc_dtype(x))
    if tile := whole_row_tile_or_none(id, x, rows, 2):
        return bind_tiled(id, held_kernel, views, tile, kinds, tile.block_sizes(0))
    tile = streaming_tile(x, rows)
    return bind_tiled(id, layer_norm_kernel, views, tile, kinds, tile.block_sizes(3))
