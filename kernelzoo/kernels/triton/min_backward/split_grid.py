"""Several programs to one row, all of them resident, which exchange their counts: one co-operative launch."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.triton.min_backward.split_plan import launch_in_parts
from kernelzoo.kernels.triton.softmax.pairs import EXCHANGE
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("triton", "min_backward", "split_grid")
def split_grid(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, which they hold on chip while they exchange counts: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other, which only NVIDIA's devices
    can be asked for.
    """
    if not device_of(x).is_nvidia:
        words = "programs can't wait for each other on this device"
        raise UnsupportedProblemError("triton/min_backward/split_grid", words)
    return launch_in_parts("triton/min_backward/split_grid", (x, y, grad, out), EXCHANGE)
