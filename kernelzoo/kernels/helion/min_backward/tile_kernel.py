"""A tile of whole rows to a program, which it holds on chip: one kernel, of which fused, multi_row_tile and columns
have each a block of another shape."""

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
def tile_kernel(x, y, grad, out, wide: torch.dtype):
    """One read, one write. A share is divided in float64, once a row: in float32 a device's division is not to nearest,
    and rounded once more this one is."""
    outer, _, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = y[o, i].to(wide)
        slope = grad[o, i].to(torch.float64)
        equal = x[o, :, i].to(wide) == least[:, None, :]
        count = equal.to(torch.int32).sum(1).to(torch.float64)
        each = (slope / count).to(wide)
        rest = torch.where(count > 0, slope * 0.0, float("nan")).to(wide)
        out[o, :, i] = torch.where(equal, each[:, None, :], rest[:, None, :]).to(out.dtype)


def views_of(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as kernels see them."""
    rows, (least, slope) = rows_with(x, out, y, grad)
    first, last = tiles.seen(rows, x, out)
    return first, tiles.seen_beside(rows, y, least), tiles.seen_beside(rows, grad, slope), last


def launch_of_tiles(
    id: str, tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tile: Tile
) -> Launch:
    """The launch of tile_kernel over a problem's tiles. tensors: x, y, grad and out."""
    views, kinds = views_of(*tensors), (tiles.wide(tensors[0]),)
    blocks = tile.outer, tile.inner
    program = Program(tile_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, tiles.far(*views))
    return bound(id, program, views, views)
