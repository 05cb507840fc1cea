"""A program takes a strip of neighbouring columns as a whole."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.helion.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.helion.min.tiles import column_tile, plain
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("helion", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over strips of neighbouring columns, each read from top to bottom by one program."""
    x, out = plain(x), plain(out)
    id, rows = "helion/min/columns", rows_of(x, out)
    if rows.columns is None:
        words = "it takes columns, and the rows of this problem don't lie across memory"
        raise UnsupportedProblemError(id, words)
    return launch_deferred(id, x, out, column_tile(rows))
