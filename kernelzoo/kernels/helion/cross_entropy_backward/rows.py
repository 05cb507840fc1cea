import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_rounding_error
from kernelzoo.kernels.helion.launch import bind_tiled
from kernelzoo.kernels.helion.row_tiles import streaming_tile
from kernelzoo.kernels.helion.softmax.device_functions import exponential, update_state, zero_if_neg_inf
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def backward_kernel(x, labels, grad, out, ignore_index, acc_dtype: torch.dtype):
    """A row with NaN or +inf has the sum NaN. A row of only -inf has the sum 0, and the softmax 0 * (1 / 0) = NaN."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        top = hl.full([o, i], float("-inf"), dtype=acc_dtype)
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(n):
            top, total, lost = update_state(top, total, lost, x[o, c, i].to(acc_dtype))
        total = add_rounding_error(total, lost)
        shift = zero_if_neg_inf(top)[:, None, :]
        inverse = (1.0 / total)[:, None, :]
        label = labels[o, i]
        factor = torch.where((label >= 0) & (label < n), grad[o, i].to(acc_dtype), float("nan"))[:, None, :]
        ignored = (label == ignore_index)[:, None, :]
        for c in hl.tile(n):
            share = exponential(x[o, c, i].to(acc_dtype) - shift) * inverse
            result = factor * (share - (c.index[None, :, None] == label[:, None, :]).to(acc_dtype))
            out[o, c, i] = torch.where(ignored, 0.0, result).to(out.dtype)


@register("helion", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """One pass finds the (max, sum) states of rows. A second pass reads the rows again, from cache, and writes."""
    id, (rows, views) = "helion/cross_entropy_backward/rows", tiles.rows_and_views(x, out, labels, grad)
    tile = streaming_tile(x, rows)
    return bind_tiled(id, backward_kernel, views, tile, (tiles.acc_dtype(x),), tile.block_sizes(2), (ignore_index,))
