"""A softmax's rows by pairs that are known: one read, one write."""

import numpy as np
import torch
from numba import njit, prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax.words import exponential, rounded, widen
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit(error_model="numpy")
def _result(element, top, total, like):
    depth = widen(element) - top
    return rounded(exponential(type(depth)(0) if depth > 0 else depth) / total, like)


@compiled(error_model="numpy")
def _finish_task(x, maximum, sums, out, n, lanes, xg, xn, xl, mg, ml, sg, sl, og, on, ol, first, last):
    n, xn, on, one = np.uint64(n), np.uint64(xn), np.uint64(on), np.uint64(1)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, to = np.uint64(group * xg + lane * xl), np.uint64(group * og + lane * ol)
        top, total = maximum[np.uint64(group * mg + lane * ml)], sums[np.uint64(group * sg + lane * sl)]
        if xn == one and on == one:
            for j in range(n):
                out[to + j] = _result(x[at + j], top, total, out[to])
        else:
            for j in range(n):
                out[to + j * on] = _result(x[at + j * xn], top, total, out[to])


@compiled(parallel=True)
def _finish(x, maximum, sums, out, n, lanes, xg, xn, xl, mg, ml, sg, sl, og, on, ol, units, tasks):
    if tasks == 1:
        _finish_task(x, maximum, sums, out, n, lanes, xg, xn, xl, mg, ml, sg, sl, og, on, ol, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _finish_task(x, maximum, sums, out, n, lanes, xg, xn, xl, mg, ml, sg, sl, og, on, ol, begin, end)


@register("cpu", "softmax_finish", "rows")
def rows(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor, out: torch.Tensor) -> Launch:
    """One read, one write; rows in parallel."""
    tensors = lanes_last(x, maximum, total, out)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    half = DTYPES[x.dtype]
    arrays = [flat(t, half if t.dtype == x.dtype else t.dtype) for t in tensors]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_finish, (*arrays, n, lanes, *strides, units, tasks(units, x.numel()))))
