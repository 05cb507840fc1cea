import helion
import helion.language as hl
import torch
from torch import Tensor

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, rounded, whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import columns_of, tile_of
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def dx_kernel(x, weight, grad, means, scales, dx, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total, total_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        level, level_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            total, total_lost = add_exactly(total, total_lost, x[o, c, i].to(wide).sum(1))
            pulled = grad[o, c, i].to(wide) * weight[c].to(wide)[None, :, None]
            level, level_lost = add_exactly(level, level_lost, pulled.sum(1))
        mean, level = whole(total, total_lost) / n, whole(level, level_lost) / n
        squares, squares_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        products, products_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            away = x[o, c, i].to(wide) - mean[:, None, :]
            squares, squares_lost = add_exactly(squares, squares_lost, (away * away).sum(1))
            away *= grad[o, c, i].to(wide) * weight[c].to(wide)[None, :, None]
            products, products_lost = add_exactly(products, products_lost, away.sum(1))
        scale = torch.rsqrt(whole(squares, squares_lost) / n + eps)
        slope = whole(products, products_lost) / n * scale
        means[o, i] = mean
        scales[o, i] = scale
        for c in hl.tile(n):
            normal = (x[o, c, i].to(wide) - mean[:, None, :]) * scale[:, None, :]
            pulled = grad[o, c, i].to(wide) * weight[c].to(wide)[None, :, None]
            result = scale[:, None, :] * (pulled - level[:, None, :] - normal * slope[:, None, :])
            dx[o, c, i] = result.to(dx.dtype)


@helion.kernel(static_shapes=False)
def over_rows_kernel(x, grad, means, scales, dweight, dbias, wide: torch.dtype):
    outer, n, inner = x.size()
    for c in hl.tile(n):
        total, lost = hl.zeros([c], dtype=wide), hl.zeros([c], dtype=wide)
        bias, bias_lost = hl.zeros([c], dtype=wide), hl.zeros([c], dtype=wide)
        for o in hl.tile(outer):
            for i in hl.tile(inner):
                grads = grad[o, c, i].to(wide)
                normal = (x[o, c, i].to(wide) - means[o, i][:, None, :]) * scales[o, i][:, None, :]
                total, lost = add_exactly(total, lost, rounded(grads * normal).sum(2).sum(0))
                bias, bias_lost = add_exactly(bias, bias_lost, grads.sum(2).sum(0))
        dweight[c] = whole(total, lost).to(dweight.dtype)
        dbias[c] = whole(bias, bias_lost).to(dbias.dtype)


@register("helion", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """Three passes over each row, which leave its mean and scale; a second launch adds up over all rows."""
    id, wide = "helion/layer_norm_backward/rows", tiles.wide(x)
    rows, (x_view, grad_view, dx_view) = tiles.problem(x, dx, grad)
    lies, tile, columns = tiles.placed(rows), tile_of(x, rows, 2), columns_of(x, rows, 2)
    means, scales = x.new_empty((2, lies.outer, lies.inner), dtype=wide).unbind()
    views = (x_view, weight, grad_view, dx_view, dweight, dbias)
    taken = (x_view, weight, grad_view, means, scales, dx_view)
    first = over_views(id, dx_kernel, views, tile, (eps, wide), tile.blocks(3), taken=taken)
    of_rows = (x_view, grad_view, means, scales, dweight, dbias)
    along = columns.cols, columns.outer, columns.inner
    second = over_views(id, over_rows_kernel, views, columns, (wide,), along, taken=of_rows, order=())
    return sequence(first, second) if rows.total else second
