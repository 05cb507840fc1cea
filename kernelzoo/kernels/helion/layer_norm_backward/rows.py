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
def dx_kernel(x, weight, grad, means, scales, dx, eps: hl.constexpr, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total, total_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        level, level_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            total, total_lost = add_exactly(total, total_lost, x[o, c, i].to(acc_dtype).sum(1))
            pulled = grad[o, c, i].to(acc_dtype) * weight[c].to(acc_dtype)[None, :, None]
            level, level_lost = add_exactly(level, level_lost, pulled.sum(1))
        mean, level = add_rounding_error(total, total_lost) / n, add_rounding_error(level, level_lost) / n
        squares, squares_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        products, products_lost = hl.zeros([o, i], dtype=acc_dtype), hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            away = x[o, c, i].to(acc_dtype) - mean[:, None, :]
            squares, squares_lost = add_exactly(squares, squares_lost, (away * away).sum(1))
            away *= grad[o, c, i].to(acc_dtype) * weight[c].to(acc_dtype)[None, :, None]
            products, products_lost = add_exactly(products, products_lost, away.sum(1))
        scale = torch.rsqrt(add_rounding_error(squares, squares_lost) / n + eps)
        slope = add_rounding_error(products, products_lost) / n * scale
        means[o, i] = mean
        scales[o, i] = scale
        for c in hl.tile(n):
            normal = (x[o, c, i].to(acc_dtype) - mean[:, None, :]) * scale[:, None, :]
            pulled = grad[o, c, i].to(acc_dtype) * weight[c].to(acc_dtype)[None, :, None]
            result = scale[:, None, :] * (pulled - level[:, None, :] - normal * slope[:, None, :])
            dx[o, c, i] = result.to(dx.dtype)


@helion.kernel(static_shapes=False)
def over_rows_kernel(x, grad, means, scales, dweight, dbias, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for c in hl.tile(n):
        total, lost = hl.zeros([c], dtype=acc_dtype), hl.zeros([c], dtype=acc_dtype)
        bias, bias_lost = hl.zeros([c], dtype=acc_dtype), hl.zeros([c], dtype=acc_dtype)
        for o in hl.tile(outer):
            for i in hl.tile(inner):
                grads = grad[o, c, i].to(acc_dtype)
                normal = (x[o, c, i].to(acc_dtype) - means[o, i][:, None, :]) * scales[o, i][:, None, :]
                total, lost = add_exactly(total, lost, round_product(grads * normal).sum(2).sum(0))
                bias, bias_lost = add_exactly(bias, bias_lost, grads.sum(2).sum(0))
        dweight[c] = add_rounding_error(total, lost).to(dweight.dtype)
        dbias[c] = add_rounding_error(bias, bias_lost).to(dbias.dtype)


@register("helion", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Three passes over each row write dx, mean and scale. A second launch sums dweight and dbias over all rows."""
    id, acc_dtype = "helion/layer_norm_backward/rows", tiles.acc_dtype(x)
    rows, (x_view, grad_view, dx_view) = tiles.rows_and_views(x, dx, grad)
    axes, tile, columns = tiles.as_columns_if_strided(rows), streaming_tile(x, rows, 2), weight_grad_tile(x, rows, 2)
    means, scales = x.new_empty((2, axes.outer, axes.inner), dtype=acc_dtype).unbind()
    views = (x_view, weight, grad_view, dx_view, dweight, dbias)
    taken = (x_view, weight, grad_view, means, scales, dx_view)
    first = bind_tiled(id, dx_kernel, views, tile, (eps, acc_dtype), tile.block_sizes(3), arguments=taken)
    of_rows = (x_view, grad_view, means, scales, dweight, dbias)
    along = columns.cols, columns.outer, columns.inner
    second = bind_tiled(id, over_rows_kernel, views, columns, (acc_dtype,), along, arguments=of_rows, order=())
    return chain_launches(first, second) if rows.total else second
