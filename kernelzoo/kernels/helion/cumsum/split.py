import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.launch import in_two
from kernelzoo.kernels.helion.row_tiles import in_parts
from kernelzoo.kernels.helion.sum.split import parts_kernel
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def scan_kernel(x, sums, out, span, wide: torch.dtype):
    outer, n, inner = x.size()
    parts = sums.size(1)
    for o, i, part in hl.tile([outer, inner, parts], block_size=[None, None, 1]):
        total = hl.zeros([o, i], dtype=wide)
        for before in hl.tile(part.begin, block_size=64):
            total = total + sums[o, before, i].sum(1)
        for c in hl.tile(part.begin * span, min(part.begin * span + span, n)):
            tile = x[o, c, i].to(wide)
            out[o, c, i] = (total[:, None, :] + hl.cumsum(tile, dim=1)).to(out.dtype)
            total = total + tile.sum(1)


@register("helion", "cumsum", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums; a second launch reads again, and writes."""
    x = plain(x)
    rows, views = tiles.problem(x, out)
    (tile, plan), wide = in_parts(x, rows), tiles.wide(x, out)
    both = parts_kernel, scan_kernel
    return in_two("helion/cumsum/split", both, views, 1, rows, tile, plan, (wide,), (wide,))
