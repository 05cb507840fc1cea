"""A program takes whole rows block by block; the running minimum stays a tile until the row has ended."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.cutile.min.tiles import Numbers, plain, row_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("cutile", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    rows = rows_of(x, out)
    tile = row_tile(of(Numbers, device_of(x).index), rows)
    return launch_deferred("cutile/min/rows_deferred_block", x, out, rows, tile)
