"""A strip of neighbouring columns to a block, which holds them in registers."""

import torch

from kernelzoo.kernels.cute.min_backward.tile_kernel import given_by, launch_of_tiles
from kernelzoo.kernels.cute.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("cute", "min_backward", "columns")
def columns(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of neighbouring columns to a block: the kernel of rows, with the layout of its threads turned."""
    id, given = "cute/min_backward/columns", given_by(x, y, grad, out)
    return launch_of_tiles(id, (x, y, grad, out), given, strip(given, 1, id))
