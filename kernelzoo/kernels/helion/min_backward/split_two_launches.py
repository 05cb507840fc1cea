import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.min_backward.fused import shares_of
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def counts_kernel(x, y, counts, span, wide: torch.dtype):
    """A program has span elements of a block's rows, and leaves how many are the minimum. Blocks are counted in 32
    bits, rows in 64."""
    outer, n, inner = x.size()
    parts = counts.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = y[o, i].to(wide)
        count = hl.zeros([o, i], dtype=torch.int64)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            count = count + (x[o, c, i].to(wide) == least[:, None, :]).to(torch.int32).sum(1).to(torch.int64)
        counts[o, part.begin, i] = count


@helion.kernel(static_shapes=False)
def write_kernel(x, y, grad, counts, out, span, wide: torch.dtype):
    """Every program adds up all counts of its rows."""
    outer, n, inner = x.size()
    parts = counts.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        least = y[o, i].to(wide)
        each, rest = shares_of(grad[o, i], counts[o, :, i].sum(1), wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            equal = x[o, c, i].to(wide) == least[:, None, :]
            out[o, c, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


@register("helion", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave counts; a second launch adds them up and writes."""
    id, wide = "helion/min_backward/split_two_launches", tiles.wide(x)
    rows, views = tiles.problem(x, out, y, grad)
    tile = tiles.block(rows, tiles.BLOCK_BYTES // 2)
    plan = tiles.cut_of(rows, tile, device_of(x))
    return in_two(id, (counts_kernel, write_kernel), views, 2, rows, tile, plan, (torch.int64,), (wide,))
