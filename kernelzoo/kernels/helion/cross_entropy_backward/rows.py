import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import tile_of
from kernelzoo.kernels.helion.softmax.device_functions import exponential, state_with, subtracted
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def backward_kernel(x, labels, grad, out, ignore_index, wide: torch.dtype):
    """Of a row with a NaN or +inf the sum is NaN, and of one of -inf alone 0: its shares are 0 / 0."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide))
        total = whole(total, lost)
        shift = subtracted(top)[:, None, :]
        inverse = (1.0 / total)[:, None, :]
        label = labels[o, i]
        factor = torch.where((label >= 0) & (label < n), grad[o, i].to(wide), float("nan"))[:, None, :]
        ignored = (label == ignore_index)[:, None, :]
        for c in hl.tile(n):
            share = exponential(x[o, c, i].to(wide) - shift) * inverse
            result = factor * (share - (c.index[None, :, None] == label[:, None, :]).to(wide))
            out[o, c, i] = torch.where(ignored, 0.0, result).to(out.dtype)


@register("helion", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """A pass for the (max, sum) states of rows, and one, from cache, that writes."""
    id, (rows, views) = "helion/cross_entropy_backward/rows", tiles.problem(x, out, labels, grad)
    tile = tile_of(x, rows)
    return over_views(id, backward_kernel, views, tile, (tiles.wide(x),), tile.blocks(2), (ignore_index,))
