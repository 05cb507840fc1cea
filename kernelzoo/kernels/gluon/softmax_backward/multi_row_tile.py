"""A tile of consecutive short rows of both inputs to a program, which one warp holds."""

import torch

from kernelzoo.kernels.gluon.softmax.tiles import Numbers, short_or_refuse
from kernelzoo.kernels.gluon.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("gluon", "softmax_backward", "multi_row_tile")
def multi_row_tile(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program: its one warp is split among them."""
    id, device = "gluon/softmax_backward/multi_row_tile", device_of(grad)
    rows, (weights,) = rows_with(grad, out, y)
    tile = short_or_refuse(of(Numbers, device.index), device, rows, 2, id, weights)
    return launch_of_tiles(id, (grad, y, out), tile)
