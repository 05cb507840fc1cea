"""Whole columns, a strip of them to a program, which it holds on chip: one read, one write."""

import torch

from kernelzoo.kernels.cutile.softmax.tile_kernel import launch_of_tiles
from kernelzoo.kernels.cutile.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "softmax", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program: the kernel of rows, along another axis."""
    id, rows = "cutile/softmax/columns", rows_of(x, out)
    return launch_of_tiles(id, x, out, rows, strip(rows, 1, id))
