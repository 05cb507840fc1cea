"""A tile of consecutive short rows to a program, which one warp holds."""

import torch

from kernelzoo.kernels.helion.softmax.tiles import Numbers, launch_of_tiles, short_or_refuse
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("helion", "softmax", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program: one warp holds all of it."""
    id, device = "helion/softmax/multi_row_tile", device_of(x)
    tile = short_or_refuse(of(Numbers, device.index), device, rows_of(x, out), 1, id)
    return launch_of_tiles(id, x, out, tile)
