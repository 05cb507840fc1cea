import numpy as np
import torch

from kernelzoo.kernels.cpu.device_functions import offset, round_like, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@parallel_kernel()
def _rows(x, out, n, lanes, xg, xn, xl, og, on, ol, is_float, first, last):
    n, xn, on = np.uint64(n), np.uint64(xn), np.uint64(on)
    for row in range(first, last):
        at, to = offset(row, lanes, xg, xl), offset(row, lanes, og, ol)
        if is_float is None:
            count = np.int64(0)
            for j in range(n):
                count += np.int64(x[at + j * xn])
                out[to + j * on] = count
        else:
            total, zero = np.float64(0), zero_sum(x)
            for j in range(n):
                total += widen(x[at + j * xn])
                out[to + j * on] = round_like(type(zero)(total), out[to])


@register("cpu", "cumsum", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Elements are added in order in float64, integers in int64. Rows run in parallel."""
    return bind_launch(_rows, move_lanes_last(x, out), x.size(0) * x.size(2), True if x.is_floating_point() else None)
