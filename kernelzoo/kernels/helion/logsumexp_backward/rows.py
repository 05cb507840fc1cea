import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.kernels.helion.softmax.device_functions import exponential
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def backward_kernel(x, y, grad, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        of_row = y[o, i].to(wide)[:, None, :]
        factor = grad[o, i].to(wide)[:, None, :]
        for c in hl.tile(n):
            out[o, c, i] = (factor * exponential(x[o, c, i].to(wide) - of_row)).to(out.dtype)


@register("helion", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """An exponential of each element, times its row's gradient: one read and one write."""
    rows, views = tiles.problem(x, out, y, grad)
    tile = tile_of(x, rows)
    return over_views("helion/logsumexp_backward/rows", backward_kernel, views, tile, (tiles.wide(x),), tile.blocks())
