"""Device functions that kernels share: exponentials, and the running (max, sum) states of rows along axis 1."""

import torch

from kernelzoo.kernels.helion.device_functions import add_exactly

LOG2_E = 1.4426950408889634


def exponential(x):
    """Return e^x. In float32 it is 2^(x * log2(e)), which takes a fifth of the instructions of ``torch.exp``."""
    if x.dtype == torch.float64:
        return torch.exp(x)
    return torch.exp2(x * LOG2_E)


def zero_if_neg_inf(top):
    """Return the number to subtract from a row: its maximum, or 0 if that is -inf, to avoid -inf - -inf."""
    return torch.where(top == float("-inf"), 0.0, top)


def update_state(top, total, lost, tile, subtract=zero_if_neg_inf):
    """Add a block, along axis 1, to the rows' states (max, sum, rounding errors). subtract: see ``zero_if_neg_inf``."""
    higher = torch.maximum(top, torch.amax(tile, dim=1))
    shift = subtract(higher)
    scale, terms = exponential(top - shift), exponential(tile - shift.unsqueeze(1)).sum(1)
    total, lost = add_exactly(total * scale, lost * scale, terms)
    return higher, total, lost
