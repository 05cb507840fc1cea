"""One program to a row, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.cutile.softmax_backward.ragged_kernel import are_ragged, launch_of_ragged
from kernelzoo.kernels.cutile.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import row_tile
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row of both inputs, which it holds on chip."""
    id, rows = "cutile/softmax_backward/fused", rows_of(grad, out)
    tile = row_tile(rows, 2, id)
    if are_ragged(rows, grad, y):
        return launch_of_ragged(id, (grad, y, out), rows, tile.warps)
    return launch_of_tiles(id, (grad, y, out), tile)
