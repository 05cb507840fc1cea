import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, add_rounding_error
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def sums_kernel(grad, y, sums, span, acc_dtype: torch.dtype):
    """Store the sums of grad * y over span elements of each row of a tile."""
    outer, n, inner = grad.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=acc_dtype)
        lost = hl.zeros([o, i], dtype=acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            total, lost = add_exactly(total, lost, (grad[o, c, i].to(acc_dtype) * y[o, c, i].to(acc_dtype)).sum(1))
        sums[o, part.begin, i] = add_rounding_error(total, lost)


@helion.kernel(static_shapes=False)
def write_kernel(grad, y, sums, out, span, acc_dtype: torch.dtype):
    """Each program adds up the sums of its rows' parts in the same order, so that all get the same bits."""
    outer, n, inner = grad.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = sums[o, :, i].sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            out[o, c, i] = (y[o, c, i].to(acc_dtype) * (grad[o, c, i].to(acc_dtype) - total[:, None, :])).to(out.dtype)


@register("helion", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store sums. A second launch adds them up and writes."""
    id, acc_dtype = "helion/softmax_backward/split_two_launches", tiles.acc_dtype(grad)
    rows, views = tiles.rows_and_views(grad, out, y)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES // 2)
    plan = tiles.plan_parts(rows, tile, device_of(grad))
    return bind_pair(id, (sums_kernel, write_kernel), views, 2, rows, tile, plan, (acc_dtype,), (acc_dtype,))
