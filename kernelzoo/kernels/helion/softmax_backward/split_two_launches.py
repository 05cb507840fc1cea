import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def sums_kernel(grad, y, sums, span, wide: torch.dtype):
    """A program has span elements of a block's rows, and leaves their sums."""
    outer, n, inner = grad.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            total, lost = add_exactly(total, lost, (grad[o, c, i].to(wide) * y[o, c, i].to(wide)).sum(1))
        sums[o, part.begin, i] = whole(total, lost)


@helion.kernel(static_shapes=False)
def write_kernel(grad, y, sums, out, span, wide: torch.dtype):
    """Every program adds up all sums of its rows in the same order, so that all agree to the bit."""
    outer, n, inner = grad.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = sums[o, :, i].sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            out[o, c, i] = (y[o, c, i].to(wide) * (grad[o, c, i].to(wide) - total[:, None, :])).to(out.dtype)


@register("helion", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums; a second launch adds them up and writes."""
    id, wide = "helion/softmax_backward/split_two_launches", tiles.wide(grad)
    rows, views = tiles.problem(grad, out, y)
    tile = tiles.block(rows, tiles.BLOCK_BYTES // 2)
    plan = tiles.cut_of(rows, tile, device_of(grad))
    return in_two(id, (sums_kernel, write_kernel), views, 2, rows, tile, plan, (wide,), (wide,))
