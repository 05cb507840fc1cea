"""A program takes a strip of neighbouring columns as a whole."""

import torch

from kernelzoo.kernels.cutile.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.cutile.min.tiles import column_tile, plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cutile", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over strips of neighbouring columns, each read from top to bottom by one program."""
    x, out = plain(x), plain(out)
    id, rows = "cutile/min/columns", rows_of(x, out)
    return launch_deferred(id, x, out, rows, column_tile(rows, id))
