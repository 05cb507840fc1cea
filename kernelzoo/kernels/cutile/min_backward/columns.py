"""Whole columns, a strip of them to a program, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.cutile.min_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "min_backward", "columns")
def columns(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program: the kernel of rows, along another axis."""
    id = "cutile/min_backward/columns"
    return launch_of_tiles(id, (x, y, grad, out), strip(rows_of(x, out), 1, id))
