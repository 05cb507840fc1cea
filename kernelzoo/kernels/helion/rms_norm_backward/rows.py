import helion
import helion.language as hl
import torch
from torch import Tensor

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error, round_product
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile, weight_grad_tile
from kernelzoo.launch import Launch, chain_launches
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def dx_kernel(x, weight, grad, scales, dx, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares, squares_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        products, products_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            tile = x[o, c, i].to(acc_dtype)
            squares, squares_lost = add_exactly(squares, squares_lost, (tile * tile).sum(1))
            tile *= grad[o, c, i].to(acc_dtype) * weight[c].to(acc_dtype)[None, :, None]
            products, products_lost = add_exactly(products, products_lost, tile.sum(1))
        scale = torch.rsqrt(add_rounding_error(squares, squares_lost) / n + eps)
        slope = add_rounding_error(products, products_lost) / n * scale * scale
        scales[o, i] = scale
        for c in hl.tile(n):
            pulled = grad[o, c, i].to(acc_dtype) * weight[c].to(acc_dtype)[None, :, None]
            dx[o, c, i] = (scale[:, None, :] * (pulled - x[o, c, i].to(acc_dtype) * slope[:, None, :])).to(dx.dtype)


@helion.kernel(static_shapes=False)
def dweight_kernel(x, grad, scales, dweight, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for c in hl.tile(n):
        total = hl.zeros([c], dtype=acc_dtype)
        lost = hl.zeros([c], dtype=acc_dtype)
        for o in hl.tile(outer):
            for i in hl.tile(inner):
                terms = grad[o, c, i].to(acc_dtype) * (x[o, c, i].to(acc_dtype) * scales[o, i][:, None, :])
                total, lost = add_exactly(total, lost, round_product(terms).sum(2).sum(0))
        dweight[c] = add_rounding_error(total, lost).to(dweight.dtype)


@register("helion", "rms_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, eps: float) -> Launch:
    """Two passes over each row write dx and the row's scale. A second launch sums dweight over all rows."""
    id, acc_dtype = "helion/rms_norm_backward/rows", tiles.acc_dtype(x)
    rows, (x_view, grad_view, dx_view) = tiles.rows_and_views(x, dx, grad)
    axes, tile, columns = tiles.as_columns_if_strided(rows), streaming_tile(x, rows, 2), weight_grad_tile(x, rows, 2)
    scales = x.new_empty((axes.outer, axes.inner), dtype=acc_dtype)
    views = (x_view, weight, grad_view, dx_view, dweight)
    taken = (x_view, weight, grad_view, scales, dx_view)
    first = bind_tiled(id, dx_kernel, views, tile, (eps, acc_dtype), tile.block_sizes(2), arguments=taken)
    of_rows = (x_view, grad_view, scales, dweight)
    along = columns.cols, columns.outer, columns.inner
    second = bind_tiled(id, dweight_kernel, views, columns, (acc_dtype,), along, arguments=of_rows, order=())
    return chain_launches(first, second) if rows.total else second
