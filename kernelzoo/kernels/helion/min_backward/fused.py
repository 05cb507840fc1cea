import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def divide_gradient_among_minima(grad, count, acc_dtype: torch.dtype):
    """Return the gradient of each of count equal minima, and that of other elements: grad * 0, NaN if count is 0. The
    division is in float64, once per row, because float32 division on a GPU doesn't round to nearest."""
    slope, equals = grad.to(torch.float64), count.to(torch.float64)
    return (slope / equals).to(acc_dtype), torch.where(equals > 0, slope * 0.0, float("nan")).to(acc_dtype)


@helion.kernel(static_shapes=False)
def tile_kernel(x, y, grad, out, acc_dtype: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least, slope = y[o, i].to(acc_dtype), grad[o, i]
        equal = x[o, :, i].to(acc_dtype) == least[:, None, :]
        each, rest = divide_gradient_among_minima(slope, equal.to(torch.int32).sum(1), acc_dtype)
        out[o, :, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program keeps several short rows, one row or a strip of columns on chip: one read, one write."""
    id, (rows, views) = "helion/min_backward/fused", tiles.rows_and_views(x, out, y, grad)
    tile = tiles.whole_row_tile(id, device_of(x), rows, 1)
    return bind_tiled(id, tile_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(0))
