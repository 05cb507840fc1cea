"""Several blocks take a strip of columns in parts; the last to arrive joins their minima: one launch."""

import torch

from kernelzoo.kernels.cute.min.split_kernel import launch_in_parts
from kernelzoo.kernels.cute.min.tiles import plain
from kernelzoo.kernels.cute.tiles import across_or_refuse, block, problem
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "min", "columns_split")
def columns_split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to a strip of columns leave partial minima, and the last to arrive reduces them: one launch."""
    id, x, out = "cute/min/columns_split", plain(x), plain(out)
    given = problem(rows_of(x, out))
    across_or_refuse(given, id)
    return launch_in_parts(id, x, out, given, block(given))
