import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.cross_entropy.rows import loss_of
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.logsumexp.split import merged, states_kernel
from kernelzoo.kernels.helion.row_tiles import in_parts
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def merge_kernel(x, labels, tops, totals, loss, span, ignore_index, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        label = labels[o, i]
        inside = (label >= 0) & (label < n)
        place = [o.index[:, None], torch.where(inside, label, 0), i.index[None, :]]
        picked = hl.load(x, place, extra_mask=inside).to(wide)
        top, total = merged(tops[o, :, i], totals[o, :, i])
        result = loss_of(label, inside, picked, top, total, ignore_index)
        loss[o, i] = result.to(loss.dtype)


@register("helion", "cross_entropy", "split")
def split(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Several programs to one row, or strip of columns, leave (max, sum) states, which a second launch merges."""
    id, wide = "helion/cross_entropy/split", tiles.wide(x)
    rows, views = tiles.problem(x, loss, labels)
    (tile, plan), both = in_parts(x, rows), (states_kernel, merge_kernel)
    return in_two(id, both, views, 1, rows, tile, plan, (wide, wide), (wide,), last=(1, 1), also=(ignore_index,))
