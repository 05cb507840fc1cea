import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import reading_tile
from kernelzoo.kernels.helion.softmax.device_functions import state_with
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def finite(top):
    """What is subtracted of a row with that maximum: of an infinite one nothing, so that no difference is inf - inf."""
    return torch.where(torch.abs(top) == float("inf"), 0.0, top)


@helion.kernel(static_shapes=False)
def logsumexp_kernel(x, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide), finite)
        total = whole(total, lost)
        out[o, i] = (finite(top) + torch.log(total)).to(out.dtype)


@register("helion", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over blocks that keeps a running (max, sum) state of each row."""
    rows, views = tiles.problem(x, out)
    tile = reading_tile(x, rows)
    return over_views("helion/logsumexp/rows", logsumexp_kernel, views, tile, (tiles.wide(x),), tile.blocks())
