import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import whole
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.logsumexp.rows import finite
from kernelzoo.kernels.helion.row_tiles import in_parts
from kernelzoo.kernels.helion.softmax.device_functions import exponential, state_with
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def states_kernel(x, tops, totals, span, wide: torch.dtype):
    """A program has span elements of a block's rows, and leaves their state. Of a row with +inf the sum is +inf."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide), finite)
        total = whole(total, lost)
        tops[o, part.begin, i] = top
        totals[o, part.begin, i] = total


def merged(tops, totals):
    """The state of rows, of those of their parts, which lie along axis 1: the maximum, and the sum of exponentials less
    it where it is finite. Of a part with +inf the sum is +inf, which no other changes."""
    top = torch.amax(tops, dim=1, keepdim=True)
    own = torch.where((totals == float("inf")) | (tops == float("-inf")), 0.0, finite(tops) - finite(top))
    return top.squeeze(1), (totals * exponential(own)).sum(1)


@helion.kernel(static_shapes=False)
def merge_kernel(x, tops, totals, out, span, wide: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top, total = merged(tops[o, :, i], totals[o, :, i])
        out[o, i] = (finite(top) + torch.log(total)).to(out.dtype)


@register("helion", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave (max, sum) states, which a second launch merges."""
    id, wide = "helion/logsumexp/split", tiles.wide(x)
    rows, views = tiles.problem(x, out)
    (tile, plan), both = in_parts(x, rows), (states_kernel, merge_kernel)
    return in_two(id, both, views, 1, rows, tile, plan, (wide, wide), (wide,), last=(1, 1))
