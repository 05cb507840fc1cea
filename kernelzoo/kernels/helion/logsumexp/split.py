import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.logsumexp.rows import zero_if_infinite
from kernelzoo.kernels.helion.row_tiles import tile_and_parts
from kernelzoo.kernels.helion.softmax.device_functions import exponential, update_state
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def states_kernel(x, tops, totals, span, acc_dtype: torch.dtype):
    """Store the (max, sum) states of span elements of each row of a tile. If an element is +inf, so is the sum."""
    outer, n, inner = x.size()
    parts = tops.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype), zero_if_infinite)
        total = add_rounding_error(total, lost)
        tops[o, part.begin, i] = top
        totals[o, part.begin, i] = total


def merge_states(tops, totals):
    """Merge the (max, sum) states of each row's parts, along axis 1. The sum is of exp(x - max), or of exp(x) if max is
    infinite. If a part contains +inf, the part's sum and the row's sum are +inf."""
    top = torch.amax(tops, dim=1, keepdim=True)
    own = torch.where(
        (totals == float("inf")) | (tops == float("-inf")), 0.0, zero_if_infinite(tops) - zero_if_infinite(top)
    )
    return top.squeeze(1), (totals * exponential(own)).sum(1)


@helion.kernel(static_shapes=False)
def merge_kernel(x, tops, totals, out, span, acc_dtype: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top, total = merge_states(tops[o, :, i], totals[o, :, i])
        out[o, i] = (zero_if_infinite(top) + torch.log(total)).to(out.dtype)


@register("helion", "logsumexp", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store states (max, sum). A second launch merges them."""
    id, acc_dtype = "helion/logsumexp/split", tiles.acc_dtype(x)
    rows, views = tiles.rows_and_views(x, out)
    (tile, plan), both = tile_and_parts(x, rows), (states_kernel, merge_kernel)
    return bind_pair(id, both, views, 1, rows, tile, plan, (acc_dtype, acc_dtype), (acc_dtype,), merge_blocks=(1, 1))
