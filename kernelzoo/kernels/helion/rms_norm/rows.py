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
def held_kernel(x, weight, out, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        tile = x[o, :, i].to(acc_dtype)
        scale = torch.rsqrt((tile * tile).sum(1, keepdim=True) / n + eps)
        out[o, :, i] = (tile * scale * weight[:].to(acc_dtype)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def rms_norm_kernel(x, weight, out, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            tile = x[o, c, i].to(acc_dtype)
            squares, lost = add_exactly(squares, lost, (tile * tile).sum(1))
        scale = torch.rsqrt(add_rounding_error(squares, lost) / n + eps)
        for c in hl.tile(n):
            weights = weight[c].to(acc_dtype)[None, :, None]
            out[o, c, i] = (x[o, c, i].to(acc_dtype) * scale[:, None, :] * weights).to(out.dtype)


@register("helion", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """A row that fits on chip is read once. A longer row is read again, from cache, to be scaled and written."""
    id, (rows, (x_view, out_view)) = "helion/rms_norm/rows", tiles.rows_and_views(x, out)
    views, kinds = (x_view, weight, out_view), (eps, tiles.acc_dtype(x))
    if tile := whole_row_tile_or_none(id, x, rows, 2):
        return bind_tiled(id, held_kernel, views, tile, kinds, tile.block_sizes(0))
    tile = streaming_tile(x, rows)
    return bind_tiled(id, rms_norm_kernel, views, tile, kinds, tile.block_sizes(2))
