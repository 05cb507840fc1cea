"""A program takes a strip of neighbouring columns of both inputs as a whole."""

import torch

from kernelzoo.kernels.helion.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.helion.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("helion", "softmax_backward", "columns")
def columns(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A program holds a strip of neighbouring columns of both inputs: each is read once, and the result written."""
    id = "helion/softmax_backward/columns"
    return launch_of_tiles(id, grad, y, out, strip(rows_of(grad, out), 2, id))
