"""A minimum's gradient by counts of minima that are known: one read, one write."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax.words import rounded, widen
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled(error_model="numpy")
def _finish_task(x, y, grad, counts, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, cg, cl, og, on, ol, first, last):
    n, xn, on, one = np.uint64(n), np.uint64(xn), np.uint64(on), np.uint64(1)
    zero = counts.dtype.type(0)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, to = np.uint64(group * xg + lane * xl), np.uint64(group * og + lane * ol)
        least, slope = widen(y[np.uint64(group * yg + lane * yl)]), widen(grad[np.uint64(group * gg + lane * gl)])
        count = counts[np.uint64(group * cg + lane * cl)]
        share, rest = rounded(slope / count, out[to]), rounded(slope * zero / count, out[to])
        if xn == one and on == one:
            for j in range(n):
                out[to + j] = share if widen(x[at + j]) == least else rest
        else:
            for j in range(n):
                out[to + j * on] = share if widen(x[at + j * xn]) == least else rest


@compiled(parallel=True)
def _finish(x, y, grad, counts, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, cg, cl, og, on, ol, units, tasks):
    if tasks == 1:
        _finish_task(x, y, grad, counts, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, cg, cl, og, on, ol, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _finish_task(x, y, grad, counts, out, n, lanes, xg, xn, xl, yg, yl, gg, gl, cg, cl, og, on, ol, begin, end)


@register("cpu", "min_backward_finish", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, grad: torch.Tensor, count: torch.Tensor, out: torch.Tensor) -> Launch:
    """One read, one write; rows in parallel."""
    tensors = lanes_last(x, y, grad, count, out)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    half = DTYPES[x.dtype]
    arrays = [flat(t, count.dtype if i == 3 else half) for i, t in enumerate(tensors)]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_finish, (*arrays, n, lanes, *strides, units, tasks(units, x.numel()))))
