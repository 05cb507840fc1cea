"""A tile of consecutive short rows to a program, which one warp holds."""

import torch

from kernelzoo.kernels.gluon.min_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.gluon.softmax.tiles import Numbers, short_or_refuse
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("gluon", "min_backward", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program: its one warp is split among them."""
    id, rows, device = "gluon/min_backward/multi_row_tile", rows_of(x, out), device_of(x)
    tile = short_or_refuse(of(Numbers, device.index), device, rows, 1, id)
    return launch_of_tiles(id, (x, y, grad, out), tile)
