"""One program to a row, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.helion.softmax.ragged_tile_kernel import launch_of_ragged
from kernelzoo.kernels.helion.softmax.tiles import Numbers, launch_of_tiles, row_tile
from kernelzoo.kernels.helion.tiles import uneven
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of

RAGGED_BYTES = 65536
"""Of a row that begins anywhere in vectors. Of a longer one, or of float64, the places of elements take more
registers than there are."""


@register("helion", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write."""
    id, rows, device = "helion/softmax/fused", rows_of(x, out), device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows, 1, id)
    if uneven(rows) and rows.itemsize < 8 and rows.n * rows.itemsize <= RAGGED_BYTES:
        return launch_of_ragged(id, x, out, rows, tile)
    return launch_of_tiles(id, x, out, tile)
