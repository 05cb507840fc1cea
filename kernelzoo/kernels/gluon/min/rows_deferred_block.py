"""A program takes whole rows block by block; the running minimum stays a tile until the row has ended."""

import torch

from kernelzoo.kernels.gluon import tiles
from kernelzoo.kernels.gluon.min.deferred_kernel import rows_deferred_kernel
from kernelzoo.kernels.gluon.min.tiles import Numbers, kinds, plain, row_tile
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("gluon", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    rows, device = rows_of(x, out), device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows)
    place = (x, out, *tiles.place_arguments(rows, tile))
    args = (*place, *kinds(rows, x.dtype, tile))
    return bound("gluon/min/rows_deferred_block", x, rows_deferred_kernel, tile.count(rows), args, tile.warps)
