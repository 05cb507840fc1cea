import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import single_read_tile
from kernelzoo.kernels.helion.softmax.device_functions import update_state
from kernelzoo.launch import Launch
from kernelzoo.registry import register


def compute_loss(label, inside, picked, top, total, ignore_index):
    """Return rows' losses from label logits and (max, sum) states: NaN for labels out of range and infinite max."""
    result = torch.where(inside, torch.log(total) - (picked - top) + (top - top), float("nan"))
    return torch.where(label == ignore_index, 0.0, result)


@helion.kernel(static_shapes=False)
def cross_entropy_kernel(x, labels, loss, ignore_index, acc_dtype: torch.dtype):
    """A row with NaN or +inf has the sum NaN. A row of only -inf has the sum 0, and the loss -inf - -inf = NaN."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        label = labels[o, i]
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype))
        total = add_rounding_error(total, lost)
        inside = (label >= 0) & (label < n)
        place = [o.index[:, None], torch.where(inside, label, 0), i.index[None, :]]
        picked = hl.load(x, place, extra_mask=inside).to(acc_dtype)
        loss[o, i] = compute_loss(label, inside, picked, top, total, ignore_index).to(loss.dtype)


@register("helion", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass over blocks keeps a running (max, sum) state of each row. Then the logit of each row's label is read."""
    id, (rows, views) = "helion/cross_entropy/rows", tiles.rows_and_views(x, loss, labels)
    tile = single_read_tile(x, rows)
    return bind_tiled(id, cross_entropy_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(), (ignore_index,))
