import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def tile_kernel(grad, y, out, wide: torch.dtype):
    outer, _, inner = grad.size()
    for o, i in hl.tile([outer, inner]):
        grads = grad[o, :, i].to(wide)
        weights = y[o, :, i].to(wide)
        total = (grads * weights).sum(1, keepdim=True)
        out[o, :, i] = (weights * (grads - total)).to(out.dtype)


@register("helion", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Whole rows of both inputs to a program, which it holds: several short ones, one, or a strip of columns."""
    id, (rows, views) = "helion/softmax_backward/fused", tiles.problem(grad, out, y)
    tile = tiles.held(id, device_of(grad), rows, 2)
    return over_views(id, tile_kernel, views, tile, (tiles.wide(grad),), tile.blocks(0))
