import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.row_tiles import in_parts
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def parts_kernel(x, sums, span, wide: torch.dtype):
    """A program has span elements of a block's rows."""
    outer, n, inner = x.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            total, lost = add_exactly(total, lost, x[o, c, i].to(wide).sum(1))
        sums[o, part.begin, i] = whole(total, lost)


@helion.kernel(static_shapes=False)
def merge_kernel(x, sums, out, span, wide: torch.dtype):
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        out[o, i] = sums[o, :, i].sum(1).to(out.dtype)


@register("helion", "sum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums, which a second launch adds up in a tree."""
    x = plain(x)
    rows, views = tiles.problem(x, out)
    (tile, plan), wide = in_parts(x, rows), tiles.wide(x, out)
    both = parts_kernel, merge_kernel
    return in_two("helion/sum/split", both, views, 1, rows, tile, plan, (wide,), (wide,), last=(1, 1))
