"""One program to a row, of which it holds both inputs on chip: each is read once, and the result written."""

import torch

from kernelzoo.kernels.helion.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.helion.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("helion", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, of which it holds both inputs on chip."""
    id, device = "helion/softmax_backward/fused", device_of(grad)
    tile = row_tile(of(Numbers, device.index), device, rows_of(grad, out), 2, id)
    return launch_of_tiles(id, grad, y, out, tile)
