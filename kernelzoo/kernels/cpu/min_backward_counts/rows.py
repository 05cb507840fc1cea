"""How many minima rows have, a block of each at a time; see ``cpu/min_backward/fused``."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.min_backward.fused import BLOCK, count_of
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax.words import widen
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled()
def _counts_task(x, y, counts, n, lanes, xg, xn, xl, yg, yl, cg, cl, first, last):
    n, xn, block, begin = np.uint64(n), np.uint64(xn), np.uint64(BLOCK), np.uint64(0)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, least = np.uint64(group * xg + lane * xl), widen(y[np.uint64(group * yg + lane * yl)])
        count = np.int64(0)
        for j in range(begin, n, block):
            count += count_of(x, at + j * xn, xn, min(block, n - j), least)
        counts[np.uint64(group * cg + lane * cl)] = counts.dtype.type(count)


@compiled(parallel=True)
def _counts(x, y, counts, n, lanes, xg, xn, xl, yg, yl, cg, cl, units, tasks):
    if tasks == 1:
        _counts_task(x, y, counts, n, lanes, xg, xn, xl, yg, yl, cg, cl, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _counts_task(x, y, counts, n, lanes, xg, xn, xl, yg, yl, cg, cl, begin, end)


@register("cpu", "min_backward_counts", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> Launch:
    """One read, a block of each row at a time; rows in parallel."""
    tensors = lanes_last(x, y, count)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    half = DTYPES[x.dtype]
    arrays = [flat(tensors[0], half), flat(tensors[1], half), flat(tensors[2], count.dtype)]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_counts, (*arrays, n, lanes, *strides, units, tasks(units, x.numel()))))
