import numpy as np
import torch

from kernelzoo.kernels.cpu.device_functions import offset, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@parallel_kernel()
def _rows(x, out, n, lanes, xg, xn, xl, og, ol, is_half, first, last):
    n, xn = np.uint64(n), np.uint64(xn)
    for row in range(first, last):
        at, found = offset(row, lanes, xg, xl), np.uint64(0)
        least = x[at] if is_half is None else widen(x[at])
        for j in range(n):
            value = x[at + j * xn] if is_half is None else widen(x[at + j * xn])
            if value < least or (value != value and least == least):
                least, found = value, np.uint64(j)
        out[offset(row, lanes, og, ol)] = found


@register("cpu", "argmin", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One pass over a row keeps the smallest element so far and its index. Rows run in parallel."""
    is_half = True if x.is_floating_point() and x.itemsize == 2 else None  # its elements come as integers
    return bind_launch(_rows, move_lanes_last(x, out), x.size(0) * x.size(2), is_half)
