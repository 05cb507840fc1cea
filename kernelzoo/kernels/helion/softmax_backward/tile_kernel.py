"""A tile of whole rows of both inputs to a program, which it holds on chip: one kernel, of which fused, multi_row_tile
and columns have each a block of another shape."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.tiles import Tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with


@helion.kernel(static_shapes=False)
def tile_kernel(grad, y, out, wide: torch.dtype):
    """Each input is read once, and the result written."""
    outer, _, inner = grad.size()
    for o, i in hl.tile([outer, inner]):
        grads = grad[o, :, i].to(wide)
        weights = y[o, :, i].to(wide)
        total = (grads * weights).sum(1, keepdim=True)
        out[o, :, i] = (weights * (grads - total)).to(out.dtype)


def views_of(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as kernels see them."""
    rows, (weights,) = rows_with(grad, out, y)
    first, last = tiles.seen(rows, grad, out)
    return first, tiles.seen_beside(rows, y, weights), last


def launch_of_tiles(id: str, grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor, tile: Tile) -> Launch:
    """The launch of tile_kernel over a problem's tiles."""
    views, kinds = views_of(grad, y, out), (tiles.wide(grad),)
    blocks = tile.outer, tile.inner
    program = Program(tile_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, tiles.far(*views))
    return bound(id, program, views, views)
