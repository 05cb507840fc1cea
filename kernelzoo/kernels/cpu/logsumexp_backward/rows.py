"""A row to a thread at a time: an exponential of each element, times its row's gradient."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.device_functions import exponential, place, rounded, widen
from kernelzoo.kernels.cpu.launch import FIRST, bound, compiled, lanes_last
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled()
def _rows_task(x, y, grad, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, og, on, ol, first, last):
    n, xn, on = np.uint64(n), np.uint64(xn), np.uint64(on)
    for row in range(first, last):
        at, to = place(row, lanes, xg, xl), place(row, lanes, og, ol)
        of_row, factor = widen(y[place(row, lanes, yg, yl)]), widen(grad[place(row, lanes, gg, gl)])
        for j in range(n):
            depth = widen(x[at + j * xn]) - of_row
            power = np.exp(depth) if depth > 80 else exponential(depth)  # of more than a logsumexp leaves
            out[to + j * on] = rounded(factor * power, out[to])


@compiled(parallel=True)
def _rows(x, y, grad, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, og, on, ol, units, tasks):
    args = n, lanes, xg, xn, xl, yg, yl, gg, gl, og, on, ol
    if tasks == 1:
        _rows_task(x, y, grad, out, *args, FIRST, units)
        return
    for i in prange(tasks):
        _rows_task(x, y, grad, out, *args, i * units // tasks, (i + 1) * units // tasks)


@register("cpu", "logsumexp_backward", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, out: torch.Tensor) -> Launch:
    """An exponential of each element, times its row's gradient; rows in parallel."""
    return bound(_rows, lanes_last(x, y, grad, out), x.size(0) * x.size(2))
