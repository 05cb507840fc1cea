"""What kernels have in common: exponentials, and the running pair (maximum, sum) of a row in pieces. Axis 1 is kept."""

import torch

from kernelzoo.kernels.helion.device_functions import add_exactly

LOG2_E = 1.4426950408889634


def exponential(x):
    """e^x; in float32 by the device's power of two, which takes a fifth of the instructions of ``torch.exp``."""
    if x.dtype == torch.float64:
        return torch.exp(x)
    return torch.exp2(x * LOG2_E)


def subtracted(top):
    """What is subtracted from elements before their exponentials: of elements that are all -inf nothing, so that no
    difference is -inf - -inf."""
    return torch.where(top == float("-inf"), 0.0, top)


def state_with(top, total, lost, tile, subtract=subtracted):
    """The (maximum, sum, what that rounded off) of rows along axis 1, which has no place in it, with a block more."""
    higher = torch.maximum(top, torch.amax(tile, dim=1))
    shift = subtract(higher)
    scale, terms = exponential(top - shift), exponential(tile - shift.unsqueeze(1)).sum(1)
    total, lost = add_exactly(total * scale, lost * scale, terms)
    return higher, total, lost
