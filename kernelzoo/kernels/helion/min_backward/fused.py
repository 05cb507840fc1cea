import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def shares_of(grad, count, wide: torch.dtype):
    """What each of count equal minima gets, and what every other element does; NaN if there is none. Divided in
    float64, once a row: in float32 a device's division is not to nearest, and rounded once more this one is."""
    slope, equals = grad.to(torch.float64), count.to(torch.float64)
    return (slope / equals).to(wide), torch.where(equals > 0, slope * 0.0, float("nan")).to(wide)


@helion.kernel(static_shapes=False)
def tile_kernel(x, y, grad, out, wide: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least, slope = y[o, i].to(wide), grad[o, i]
        equal = x[o, :, i].to(wide) == least[:, None, :]
        each, rest = shares_of(slope, equal.to(torch.int32).sum(1), wide)
        out[o, :, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a program, which it holds on chip: several short ones, one, or a strip of columns."""
    id, (rows, views) = "helion/min_backward/fused", tiles.problem(x, out, y, grad)
    tile = tiles.held(id, device_of(x), rows, 1)
    return over_views(id, tile_kernel, views, tile, (tiles.wide(x),), tile.blocks(0))
