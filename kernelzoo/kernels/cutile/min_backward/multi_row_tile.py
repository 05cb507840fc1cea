"""A tile of consecutive short rows to a program, which holds them on chip."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.min_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.softmax.tiles import Numbers, short_or_refuse
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("cutile", "min_backward", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program."""
    id, device = "cutile/min_backward/multi_row_tile", device_of(x)
    tile = short_or_refuse(of(Numbers, device.index), device, rows_of(x, out), 1, id)
    return launch_of_tiles(id, (x, y, grad, out), tile)
