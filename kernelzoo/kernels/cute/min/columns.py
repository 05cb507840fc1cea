"""A strip of neighbouring columns to a block: the kernel of rows_deferred_block, its threads laid out along columns."""

import torch

from kernelzoo.kernels.cute.min.deferred_kernel import launch_deferred
from kernelzoo.kernels.cute.min.tiles import plain
from kernelzoo.kernels.cute.tiles import across_or_refuse, block, problem
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "min", "columns")
def columns(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A strip of neighbouring columns to a block: the kernel of rows, with the layout of its threads turned."""
    id, x, out = "cute/min/columns", plain(x), plain(out)
    given = problem(rows_of(x, out))
    across_or_refuse(given, id)
    return launch_deferred(id, x, out, given, block(given))
