"""Dot products of rows, a block of each at a time; see ``cpu/softmax_backward/fused``."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax.rows import BLOCK
from kernelzoo.kernels.cpu.softmax.words import two_sum
from kernelzoo.kernels.cpu.softmax_backward.fused import sum_of_products, whole
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled()
def _dots_task(x, y, sums, n, lanes, xg, xn, xl, yg, yn, yl, sg, sl, first, last):
    n, xn, yn = np.uint64(n), np.uint64(xn), np.uint64(yn)
    block, begin, zero = np.uint64(BLOCK), np.uint64(0), sums.dtype.type(0)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, y_at = np.uint64(group * xg + lane * xl), np.uint64(group * yg + lane * yl)
        total = carry = zero
        for j in range(begin, n, block):
            term = sum_of_products(x, at + j * xn, xn, y, y_at + j * yn, yn, min(block, n - j), zero)
            total, carry = two_sum(total, carry, term)
        sums[np.uint64(group * sg + lane * sl)] = whole(total, carry)


@compiled(parallel=True)
def _dots(x, y, sums, n, lanes, xg, xn, xl, yg, yn, yl, sg, sl, units, tasks):
    if tasks == 1:
        _dots_task(x, y, sums, n, lanes, xg, xn, xl, yg, yn, yl, sg, sl, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _dots_task(x, y, sums, n, lanes, xg, xn, xl, yg, yn, yl, sg, sl, begin, end)


@register("cpu", "vecdot", "rows")
def rows(x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> Launch:
    """One read of both, a block of each row at a time; rows in parallel."""
    tensors = lanes_last(x, y, total)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    half = DTYPES[x.dtype]
    arrays = [flat(tensors[0], half), flat(tensors[1], half), flat(tensors[2], total.dtype)]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_dots, (*arrays, n, lanes, *strides, units, tasks(units, x.numel()))))
