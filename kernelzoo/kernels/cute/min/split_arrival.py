"""Several blocks take a row in parts and leave partial minima; the last to arrive reduces them: one launch."""

import torch

from kernelzoo.kernels.cute.min.split_kernel import launch_in_parts
from kernelzoo.kernels.cute.min.tiles import plain
from kernelzoo.kernels.cute.tiles import block, problem
from kernelzoo.launch import Launch
from kernelzoo.layout import rows_of
from kernelzoo.registry import register


@register("cute", "min", "split_arrival")
def split_arrival(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks to one row leave partial minima in a workspace, and the last to arrive reduces them: one launch.

    The launch leaves its count of arrivals at zero, and so may be repeated.
    """
    x, out = plain(x), plain(out)
    given = problem(rows_of(x, out))
    return launch_in_parts("cute/min/split_arrival", x, out, given, block(given))
