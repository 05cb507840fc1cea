import helion
import helion.language as hl
import torch
from torch import Tensor

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile, whole_row_tile_or_none
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def held_kernel(x, residual, weight, out, total, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        rounded = (x[o, :, i].to(acc_dtype) + residual[o, :, i].to(acc_dtype)).to(total.dtype)
        total[o, :, i] = rounded
        tile = rounded.to(acc_dtype)
        scale = torch.rsqrt((tile * tile).sum(1, keepdim=True) / n + eps)
        out[o, :, i] = (tile * scale * weight[:].to(acc_dtype)[None, :, None]).to(out.dtype)


@helion.kernel(static_shapes=False)
def add_rms_norm_kernel(x, residual, weight, out, total, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            rounded = (x[o, c, i].to(acc_dtype) + residual[o, c, i].to(acc_dtype)).to(total.dtype)
            total[o, c, i] = rounded
            squares, lost = add_exactly(squares, lost, (rounded.to(acc_dtype) * rounded.to(acc_dtype)).sum(1))
        scale = torch.rsqrt(add_rounding_error(squares, lost) / n + eps)
        for c in hl.tile(n):
            weights = weight[c].to(acc_dtype)[None, :, None]
            rounded = (x[o, c, i].to(acc_dtype) + residual[o, c, i].to(acc_dtype)).to(total.dtype)
            out[o, c, i] = (rounded.to(acc_dtype) * scale[:, None, :] * weights).to(out.dtype)


@register("helion", "add_rms_norm", "rows")
def rows(x: Tensor, residual: Tensor, weight: Tensor, out: Tensor, total: Tensor, eps: float) -> Launch:
    """A row that fits on chip is read once. For a longer row, both inputs are read and added again, from cache."""
    id = "helion/add_rms_norm/rows"
    rows, (x_view, residual_view, total_view, out_view) = tiles.rows_and_views(x, out, residual, total)
    views, kinds = (x_view, residual_view, weight, out_view, total_view), (eps, tiles.acc_dtype(x))
    if tile := whole_row_tile_or_none(id, x, rows, 2):
        return bind_tiled(id, held_kernel, views, tile, kinds, tile.block_sizes(0))
    tile = streaming_tile(x, rows, 2)
    return bind_tiled(id, add_rms_norm_kernel, views, tile, kinds, tile.block_sizes(2))
