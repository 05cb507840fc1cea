"""A strip of neighbouring columns to a block, which holds them in registers."""

import torch

from kernelzoo.kernels.cute.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cute.tiles import problem, strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of neighbouring columns to a block: the kernel of rows, with the layout of its threads turned."""
    id, given = "cute/softmax/columns", problem(rows_of(x, out))
    return launch_of_tiles(id, x, out, given, strip(given, 1, id))
