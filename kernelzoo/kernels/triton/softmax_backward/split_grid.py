"""Several programs to one row, all of them resident, which exchange their sums: one co-operative launch."""

import torch

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.shared.jit import device_of
from kernelzoo.kernels.triton.softmax.pairs import EXCHANGE
from kernelzoo.kernels.triton.softmax_backward.split_plan import launch_in_parts
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@register("triton", "softmax_backward", "split_grid")
def split_grid(grad: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several programs to one row, or strip of columns, which they hold on chip while they exchange sums: one launch.

    All programs run at once (a co-operative launch), so that they may wait for each other, which only NVIDIA's devices
    can be asked for.
    """
    if not device_of(grad).is_nvidia:
        words = "programs can't wait for each other on this device"
        raise UnsupportedProblemError("triton/softmax_backward/split_grid", words)
    return launch_in_parts("triton/softmax_backward/split_grid", (grad, y, out), EXCHANGE)
