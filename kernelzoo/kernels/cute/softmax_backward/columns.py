"""A strip of neighbouring columns to a block, which holds them in registers."""

import torch

from kernelzoo.kernels.cute.softmax_backward.tile_kernel import given_by, launch_of_tiles
from kernelzoo.kernels.cute.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("cute", "softmax_backward", "columns")
def columns(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of neighbouring columns to a block: the kernel of rows, with the layout of its threads turned."""
    id, given = "cute/softmax_backward/columns", given_by(grad, y, out)
    return launch_of_tiles(id, (grad, y, out), given, strip(given, 2, id))
