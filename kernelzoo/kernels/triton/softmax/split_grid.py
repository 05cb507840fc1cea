"""Several programs to one row, all of them resident, which exchange (maximum, sum) pairs: one co-operative launch."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import bound, device_of
from kernelzoo.kernels.triton.softmax.pairs import EXCHANGE
from kernelzoo.kernels.triton.softmax.split_kernel import split_kernel
from kernelzoo.kernels.triton.softmax.split_plan import split_plan
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("triton", "softmax", "split_grid")
def split_grid(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, which they hold on chip while they exchange (max, sum) pairs: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other, which only NVIDIA's devices
    can be asked for.
    """
    if not device_of(x).is_nvidia:
        raise UnsupportedProblemError("triton/softmax/split_grid", "programs can't wait for each other on this device")
    plan = split_plan(x, out, "triton/softmax/split_grid")
    options = {"maxnreg": plan.registers, "launch_cooperative_grid": True}
    args = (*plan.before, EXCHANGE, *plan.after)
    return bound("triton/softmax/split_grid", x, split_kernel, plan.programs, args, plan.warps, **options)
