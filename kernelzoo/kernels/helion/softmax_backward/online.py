import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def online_kernel(grad, y, out, wide: torch.dtype):
    outer, n, inner = grad.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, (grad[o, c, i].to(wide) * y[o, c, i].to(wide)).sum(1))
        total = whole(total, lost)
        for c in hl.tile(n):
            out[o, c, i] = (y[o, c, i].to(wide) * (grad[o, c, i].to(wide) - total[:, None, :])).to(out.dtype)


@register("helion", "softmax_backward", "online")
def online(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running sum of each row, then a pass that reads again and writes."""
    rows, views = tiles.problem(grad, out, y)
    tile = tiles.block(rows, tiles.BLOCK_BYTES // 2)
    return over_views("helion/softmax_backward/online", online_kernel, views, tile, (tiles.wide(grad),), tile.blocks(2))
