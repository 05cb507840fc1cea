import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import bind_pair
from kernelzoo.kernels.helion.min_backward.fused import divide_gradient_among_minima
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def counts_kernel(x, y, counts, span, acc_dtype: torch.dtype):
    """Store how many of each row's span elements equal its minimum. Blocks are counted in 32 bits, rows in 64."""
    outer, n, inner = x.size()
    parts = counts.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = y[o, i].to(acc_dtype)
        count = hl.zeros([o, i], dtype=torch.int64)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            count = count + (x[o, c, i].to(acc_dtype) == least[:, None, :]).to(torch.int32).sum(1).to(torch.int64)
        counts[o, part.begin, i] = count


@helion.kernel(static_shapes=False)
def write_kernel(x, y, grad, counts, out, span, acc_dtype: torch.dtype):
    """Each program adds up the counts of all parts of its rows."""
    outer, n, inner = x.size()
    parts = counts.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = y[o, i].to(acc_dtype)
        each, rest = divide_gradient_among_minima(grad[o, i], counts[o, :, i].sum(1), acc_dtype)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            equal = x[o, c, i].to(acc_dtype) == least[:, None, :]
            out[o, c, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs share a row or a strip of columns, and store counts. A second launch adds them up and writes."""
    id, acc_dtype = "helion/min_backward/split_two_launches", tiles.acc_dtype(x)
    rows, views = tiles.rows_and_views(x, out, y, grad)
    tile = tiles.loop_tile(rows, tiles.BLOCK_BYTES // 2)
    plan = tiles.plan_parts(rows, tile, device_of(x))
    return bind_pair(id, (counts_kernel, write_kernel), views, 2, rows, tile, plan, (torch.int64,), (acc_dtype,))
