"""Blocks of rows, whose running minimum stays a tile until they have ended: the kernel of rows_deferred_block, and
along another axis, of columns."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.min.tiles import identity
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of


@helion.kernel(static_shapes=False)
def deferred_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above. Helion leaves out what lies past an end where it reduces, so that elsewhere a
    kernel has to."""
    outer, n, inner = x.size()
    block = hl.register_block_size(n)
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, block, i], nothing, dtype=wide)
        for c in hl.tile(n, block_size=block):
            inside = (c.index < n)[None, :, None]
            least = torch.minimum(least, torch.where(inside, x[o, c, i].to(wide), nothing))
        out[o, i] = torch.amin(least, dim=1).to(out.dtype)


def launch_deferred(id: str, x: torch.Tensor, out: torch.Tensor, tile: Tile) -> Launch:
    """The launch of deferred_kernel over a problem's tiles."""
    views = tiles.seen(rows_of(x, out), x, out)
    kinds, far = (identity(x.dtype), tiles.wide(x)), tiles.far(*views)
    blocks = tile.cols, tile.outer, tile.inner
    program = Program(deferred_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, far)
    return bound(id, program, views, views)
