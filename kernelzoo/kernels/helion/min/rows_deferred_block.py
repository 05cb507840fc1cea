"""A program takes whole rows block by block; the running minimum stays a tile until the row has ended."""

import torch

from kernelzoo.kernels.helion.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.helion.min.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.helion.min.tiles import Numbers, plain, row_tile
from kernelzoo.kernels.helion.tiles import uneven
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("helion", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; the running minimum stays a whole tile, reduced across lanes once, after the loop."""
    x, out = plain(x), plain(out)
    id, rows, device = "helion/min/rows_deferred_block", rows_of(x, out), device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows)
    if uneven(rows):
        return launch_of_ragged(id, x, out, rows, tile, deferred=True)
    return launch_deferred(id, x, out, tile)
