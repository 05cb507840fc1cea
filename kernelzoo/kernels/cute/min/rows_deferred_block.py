"""A block takes whole rows, several short ones or one, and its threads meet once at their end."""

import torch

from kernelzoo.kernels.cute.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.cute.min.tiles import plain, row_tile
from kernelzoo.kernels.cute.tiles import problem
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "min", "rows_deferred_block")
def rows_deferred_block(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows; running minima stay in each thread until a row has ended, and threads meet once."""
    x, out = plain(x), plain(out)
    given = problem(rows_of(x, out))
    return launch_deferred("cute/min/rows_deferred_block", x, out, given, row_tile(given))
