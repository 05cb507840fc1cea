import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.device_functions import add_exactly, whole
from kernelzoo.kernels.helion.launch import over_views
from kernelzoo.kernels.helion.row_tiles import reading_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import plain
from kernelzoo.registry import register


@helion.kernel(static_shapes=False)
def sum_kernel(x, out, wide: torch.dtype):
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        total = hl.zeros([o, i], dtype=wide)
        lost = hl.zeros([o, i], dtype=wide)
        for c in hl.tile(n):
            total, lost = add_exactly(total, lost, x[o, c, i].to(wide).sum(1))
        out[o, i] = whole(total, lost).to(out.dtype)


@register("helion", "sum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Blocks are added up in a tree, and their sums in turn, with what that rounds off."""
    x = plain(x)
    rows, views = tiles.problem(x, out)
    tile, wide = reading_tile(x, rows), tiles.wide(x, out)
    return over_views("helion/sum/rows", sum_kernel, views, tile, (wide,), tile.blocks())
