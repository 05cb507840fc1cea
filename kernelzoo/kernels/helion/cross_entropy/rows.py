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


def loss_of(label, inside, picked, top, total, ignore_index):
    """The loss of rows, by their labels' logits and states: NaN where a maximum is infinite."""
    result = torch.where(inside, torch.log(total) - (picked - top) + (top - top), float("nan"))
    return torch.where(label == ignore_index, 0.0, result)


@helion.kernel(static_shapes=False)
def cross_entropy_kernel(x, labels, loss, ignore_index, wide: torch.dtype):
    """Of a row with a NaN or +inf the sum is NaN. One of -inf alone has the sum 0, and the loss -inf - -inf."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        label = labels[o, i]
        top = hl.full([o, i], float("-inf"), dtype=wide)
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            top, total, lost = state_with(top, total, lost, x[o, c, i].to(wide))
        total = whole(total, lost)
        inside = (label >= 0) & (label < n)
        place = [o.index[:, None], torch.where(inside, label, 0), i.index[None, :]]
        picked = hl.load(x, place, extra_mask=inside).to(wide)
        loss[o, i] = loss_of(label, inside, picked, top, total, ignore_index).to(loss.dtype)


@register("helion", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """One pass over blocks that keeps a running (max, sum) state of each row, and one element more."""
    id, (rows, views) = "helion/cross_entropy/rows", tiles.problem(x, loss, labels)
    tile = reading_tile(x, rows)
    return over_views(id, cross_entropy_kernel, views, tile, (tiles.wide(x),), tile.blocks(), (ignore_index,))
