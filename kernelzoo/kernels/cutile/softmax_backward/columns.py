"""Whole columns, a strip of them to a program, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.cutile.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "softmax_backward", "columns")
def columns(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program: the kernel of rows, along another axis."""
    id = "cutile/softmax_backward/columns"
    return launch_of_tiles(id, (grad, y, out), strip(rows_of(grad, out), 2, id))
