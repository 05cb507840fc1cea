"""Whole columns of both inputs, a strip of them to a program, which it holds in registers."""

import torch

from kernelzoo.kernels.gluon.softmax_backward.tile_kernel import launch_of_tiles
from kernelzoo.kernels.gluon.tiles import strip
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_with
from kernelzoo.registry import register


@register("gluon", "softmax_backward", "columns")
def columns(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of whole columns to a program: the kernel of rows, with its layout turned."""
    id = "gluon/softmax_backward/columns"
    rows, (weights,) = rows_with(grad, out, y)
    tile = strip(rows, 2, id, weights)
    return launch_of_tiles(id, (grad, y, out), tile)
