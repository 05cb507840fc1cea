"""A program takes whole rows, several short ones or one, and reduces each block of a row to a scalar at once."""

import helion
import helion.language as hl
import torch

from kernelzoo.kernels.helion import tiles
from kernelzoo.kernels.helion.compiler import Program
from kernelzoo.kernels.helion.launch import bound
from kernelzoo.kernels.helion.min.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.helion.min.tiles import Numbers, identity, plain, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@helion.kernel(static_shapes=False)
def rows_kernel(x, out, nothing: hl.constexpr, wide: torch.dtype):
    """nothing: what no element is above."""
    outer, n, inner = x.size()
    for o, i in hl.tile([outer, inner]):
        least = hl.full([o, i], nothing, dtype=wide)
        for c in hl.tile(n):
            least = torch.minimum(least, torch.amin(x[o, c, i].to(wide), dim=1))
        out[o, i] = least.to(out.dtype)


@register("helion", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; every block of a row is reduced to a scalar before it is combined."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    tile, views = row_tile(of(Numbers, device.index), device, rows), tiles.seen(rows, x, out)
    if tiles.uneven(rows):
        return launch_of_ragged("helion/min/rows", x, out, rows, tile)
    kinds, far = (identity(x.dtype), tiles.wide(x)), tiles.far(*views)
    blocks = tile.outer, tile.inner, tile.cols
    program = Program(rows_kernel, tiles.examples(*views), 0, kinds, blocks, (1, 0), tile.warps, far)
    return bound("helion/min/rows", program, views, views)
