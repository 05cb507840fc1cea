"""Several programs to one row: a launch that leaves (maximum, sum) pairs, and one that merges them and writes."""

import torch

from kernelzoo.kernels.shared.jit import bound
from kernelzoo.kernels.triton.softmax.pairs import LEAVE, WRITE
from kernelzoo.kernels.triton.softmax.split_kernel import split_kernel
from kernelzoo.kernels.triton.softmax.split_plan import split_plan
from kernelzoo.launch import Launch, sequence
from kernelzoo.registry import register


@register("triton", "softmax", "split_two_launches")
def split_two_launches(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row leave (max, sum) pairs in a workspace; a second launch merges them and writes.

    It reads every row twice, and no program waits for another.
    """
    plan = split_plan(x, out, "triton/softmax/split_two_launches")

    def part(phase: object) -> Launch:
        args = (*plan.before, phase, *plan.after)
        return bound("triton/softmax/split_two_launches", x, split_kernel, plan.programs, args, plan.warps)

    return sequence(part(LEAVE), part(WRITE))
