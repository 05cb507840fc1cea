"""One program to a row, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.helion.min_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.helion.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("helion", "min_backward", "fused")
def fused(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, which it holds on chip: one read, one write."""
    id, device = "helion/min_backward/fused", device_of(x)
    tile = row_tile(of(Numbers, device.index), device, rows_of(x, out), 1, id)
    return launch_of_tiles(id, (x, y, grad, out), tile)
