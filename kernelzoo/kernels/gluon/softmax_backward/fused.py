"""One program to a row, of which it holds both inputs on chip: each is read once, and the result written."""

import torch

from kernelzoo.kernels.gluon.softmax.tiles import Numbers, row_tile
from kernelzoo.kernels.gluon.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("gluon", "softmax_backward", "fused")
def fused(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """One program per row, of which it holds both inputs on chip: all warps lie along the row."""
    id, device = "gluon/softmax_backward/fused", device_of(grad)
    rows, (weights,) = rows_with(grad, out, y)
    tile = row_tile(of(Numbers, device.index), device, rows, 2, id, weights)
    return launch_of_tiles(id, (grad, y, out), tile)
