"""One program to a row, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.cutile.softmax.ragged_kernel import launch_of_ragged
from kernelzoo.kernels.cutile.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import is_ragged, row_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip."""
    id, rows = "cutile/softmax/fused", rows_of(x, out)
    tile = row_tile(rows, 1, id)
    if is_ragged(rows, x):
        return launch_of_ragged(id, x, out, rows, tile.warps)
    return launch_of_tiles(id, x, out, rows, tile)
