"""A softmax's gradient by totals of rows that are known: one read of both inputs, one write."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax_backward.fused import product
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled()
def _finish_task(grad, y, sums, out, n, lanes, gg, gn, gl, yg, yn, yl, sg, sl, og, on, ol, first, last):
    n, gn, yn, on, one = np.uint64(n), np.uint64(gn), np.uint64(yn), np.uint64(on), np.uint64(1)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, y_at = np.uint64(group * gg + lane * gl), np.uint64(group * yg + lane * yl)
        to, total = np.uint64(group * og + lane * ol), sums[np.uint64(group * sg + lane * sl)]
        if gn == one and yn == one and on == one:
            for j in range(n):
                out[to + j] = product(y[y_at + j], grad[at + j], total, out[to])
        else:
            for j in range(n):
                out[to + j * on] = product(y[y_at + j * yn], grad[at + j * gn], total, out[to])


@compiled(parallel=True)
def _finish(grad, y, sums, out, n, lanes, gg, gn, gl, yg, yn, yl, sg, sl, og, on, ol, units, tasks):
    if tasks == 1:
        _finish_task(grad, y, sums, out, n, lanes, gg, gn, gl, yg, yn, yl, sg, sl, og, on, ol, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _finish_task(grad, y, sums, out, n, lanes, gg, gn, gl, yg, yn, yl, sg, sl, og, on, ol, begin, end)


@register("cpu", "softmax_backward_finish", "rows")
def rows(grad: torch.Tensor, y: torch.Tensor, total: torch.Tensor, out: torch.Tensor) -> Launch:
    """One read of both inputs, one write; rows in parallel."""
    tensors = lanes_last(grad, y, total, out)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    half = DTYPES[grad.dtype]
    arrays = [flat(t, total.dtype if i == 2 else half) for i, t in enumerate(tensors)]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_finish, (*arrays, n, lanes, *strides, units, tasks(units, grad.numel()))))
