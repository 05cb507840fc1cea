"""A tile of consecutive short rows of both inputs to a program, which one warp holds."""

import torch

from kernelzoo.kernels.helion.softmax.tiles import Numbers, short_or_refuse
from kernelzoo.kernels.helion.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("helion", "softmax_backward", "multi_row_tile")
def multi_row_tile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program: one warp holds all of it."""
    id, device = "helion/softmax_backward/multi_row_tile", device_of(grad)
    tile = short_or_refuse(of(Numbers, device.index), device, rows_of(grad, out), 2, id)
    return launch_of_tiles(id, grad, y, out, tile)
