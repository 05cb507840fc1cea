"""A tile of whole rows to a program, which it holds on chip: one read, one write."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def tile_kernel(x, y, grad, out, wide: torch.dtype):
    """A share is divided in float64, once a row: in float32 a device's division is not to nearest,
    and rounded once more this one is."""
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = y[o, i].to(wide)
        slope = grad[o, i].to(torch.float64)
        equal = x[o, :, i].to(wide) == least[:, None, :]
        count = equal.to(torch.int32).sum(1).to(torch.float64)
        each = (slope / count).to(wide)
        rest = torch.where(count > 0, slope * 0.0, float("nan")).to(wide)
        out[o, :, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows to a program, which it holds on chip: several short ones, one, or a strip of columns."""
    id, (rows, views) = "helion/min_backward/fused", tiles.problem(x, out, y, grad)
    tile = tiles.held(id, device_of(x), rows, 1)
    return over_views(id, tile_kernel, views, tile, (tiles.wide(x),), (tile.outer, tile.inner))
