"""Several programs to one row: a launch that leaves their counts, and one that adds these up and writes."""

import torch

from kernelzoo.kernels.triton.min_backward.split_plan import launch_in_parts
from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("triton", "min_backward", "split_two_launches")
def split_two_launches(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave counts in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    return launch_in_parts("triton/min_backward/split_two_launches", (x, y, grad, out), LEAVE, WRITE)
