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
def dx_kernel(x, weight, grad, scales, dx, eps: hl.constexpr, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        squares, squares_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        products, products_lost = hl.zeros([o, i], dtype=wide), hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            tile = x[o, c, i].to(wide)
            squares, squares_lost = add_exactly(squares, squares_lost, (tile * tile).sum(1))
            tile *= grad[o, c, i].to(wide) * weight[c].to(wide)[None, :, None]
            products, products_lost = add_exactly(products, products_lost, tile.sum(1))
        scale = torch.rsqrt(whole(squares, squares_lost) / n + eps)
        slope = whole(products, products_lost) / n * scale * scale
        scales[o, i] = scale
        for c in hl.tile(n):
            pulled = grad[o, c, i].to(wide) * weight[c].to(wide)[None, :, None]
            dx[o, c, i] = (scale[:, None, :] * (pulled - x[o, c, i].to(wide) * slope[:, None, :])).to(dx.dtype)


@helion.kernel(static_shapes=False)
def dweight_kernel(x, grad, scales, dweight, wide: torch.dtype):
    outer, n, inner = x.size()
    for c in hl.tile(n):
        total = hl.zeros([c], dtype=wide)
        lost = hl.zeros([c], dtype=wide)
        for o in hl.tile(outer):
            for i in hl.tile(inner):
                terms = grad[o, c, i].to(wide) * (x[o, c, i].to(wide) * scales[o, i][:, None, :])
                total, lost = add_exactly(total, lost, rounded(terms).sum(2).sum(0))
        dweight[c] = whole(total, lost).to(dweight.dtype)


@register("helion", "rms_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, eps: float) -> Launch:
    """Two passes over each row, which leave its scale too; a second launch adds up over all rows for the weight."""
    id, wide = "helion/rms_norm_backward/rows", tiles.wide(x)
    rows, (x_view, grad_view, dx_view) = tiles.problem(x, dx, grad)
    lies, tile, columns = tiles.placed(rows), tile_of(x, rows, 2), columns_of(x, rows, 2)
    scales = x.new_empty((lies.outer, lies.inner), dtype=wide)
    views = (x_view, weight, grad_view, dx_view, dweight)
    taken = (x_view, weight, grad_view, scales, dx_view)
    first = over_views(id, dx_kernel, views, tile, (eps, wide), tile.blocks(2), taken=taken)
    of_rows = (x_view, grad_view, scales, dweight)
    along = columns.cols, columns.outer, columns.inner
    second = over_views(id, dweight_kernel, views, columns, (wide,), along, taken=of_rows, order=())
    return sequence(first, second) if rows.total else second
