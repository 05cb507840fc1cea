"""A tile of consecutive short rows to a program, which holds them on chip."""

import torch

from kernelzoo.kernels.cutile.launch import device_of
from kernelzoo.kernels.cutile.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.softmax.tiles import Numbers, short_or_refuse
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register
from kernelzoo.tables import of


@register("cutile", "softmax", "multi_row_tile")
def multi_row_tile(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A tile of consecutive short rows to a program."""
    id, rows, device = "cutile/softmax/multi_row_tile", rows_of(x, out), device_of(x)
    return launch_of_tiles(id, x, out, rows, short_or_refuse(of(Numbers, device.index), device, rows, 1, id))
