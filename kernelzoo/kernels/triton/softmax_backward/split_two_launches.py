"""Several programs to one row: a launch that leaves their sums, and one that adds these up and writes."""

import torch

from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.kernels.triton.softmax_backward.split_plan import launch_in_parts
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("triton", "softmax_backward", "split_two_launches")
def split_two_launches(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, leave sums in a workspace; a second launch writes.

    It reads every row twice, and no program waits for another.
    """
    return launch_in_parts("triton/softmax_backward/split_two_launches", (grad, y, out), LEAVE, WRITE)
