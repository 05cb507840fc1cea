import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.cross_entropy.rows import compute_loss
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.logsumexp.split import merge_states, states_kernel
from kernelzoo.kernels.helion.row_tiles import tile_and_parts
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def merge_kernel(x, labels, tops, totals, loss, span, ignore_index, acc_dtype: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        label = labels[o, i]
        inside = (label >= 0) & (label < n)
        place = [o.index[:, None], torch.where(inside, label, 0), i.index[None, :]]
        picked = hl.load(x, place, extra_mask=inside).to(acc_dtype)
        top, total = merge_states(tops[o, :, i], totals[o, :, i])
        result = compute_loss(label, inside, picked, top, total, ignore_index)
        loss[o, i] = result.to(loss.dtype)


@register("helion", "cross_entropy", "split")
def split(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """Several programs share a row or a strip of columns, and store states (max, sum). A second launch merges them."""
    id, acc_dtype = "helion/cross_entropy/split", tiles.acc_dtype(x)
    rows, views = tiles.rows_and_views(x, loss, labels)
    (tile, plan), both = tile_and_parts(x, rows), (states_kernel, merge_kernel)
    kinds, size = (acc_dtype, acc_dtype), (1, 1)
    return bind_pair(
        id, both, views, 1, rows, tile, plan, kinds, (acc_dtype,), merge_blocks=size, after_span=(ignore_index,)
    )
