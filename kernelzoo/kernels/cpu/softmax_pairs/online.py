"""One pass over blocks of a row keeps a running maximum and sum; see ``cpu/softmax/online``."""

import numpy as np
import torch
from numba import njit, prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, flat, lanes_last, launcher, tasks
from kernelzoo.kernels.cpu.softmax.launching import DTYPES
from kernelzoo.kernels.cpu.softmax.online import ONLINE_BLOCK, SLACK, finite
from kernelzoo.kernels.cpu.softmax.rows import BLOCK, exponentiate, top_of
from kernelzoo.kernels.cpu.softmax.words import empty, exponential, float_of, ordered, two_sum
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def _pair(x, start, x_n, n, row):
    """The maximum of a row, and the sum of its exponentials below it."""
    long_block, block, zero = np.uint64(ONLINE_BLOCK), np.uint64(BLOCK), np.uint64(0)
    reference = highest = row.dtype.type(-np.inf)
    total = carry = row.dtype.type(0)
    for at in range(zero, n, long_block):
        length = min(long_block, n - at)
        top = float_of(ordered(top_of(x, start + at * x_n, x_n, length)))
        highest = top if top > highest else highest
        if top > reference + row.dtype.type(SLACK):
            factor = exponential(reference - top)
            total, carry, reference = total * factor, carry * factor, top
        for begin in range(at, at + length, block):
            count = min(block, at + length - begin)
            term = exponentiate(x, start + begin * x_n, x_n, count, finite(reference), row, zero)
            total, carry = two_sum(total, carry, term)
    # The sum is below a reference that the maximum may have outgrown by SLACK.
    total = (total + carry) * exponential(finite(reference) - finite(highest))
    return (highest, total) if total == total else (total, total)


@compiled(error_model="numpy")
def _pairs_task(x, maximum, sums, n, lanes, xg, xn, xl, mg, ml, sg, sl, first, last):
    n, xn = np.uint64(n), np.uint64(xn)
    row = empty(np.uint64(BLOCK), x)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        top, total = _pair(x, np.uint64(group * xg + lane * xl), xn, n, row)
        maximum[np.uint64(group * mg + lane * ml)] = top
        sums[np.uint64(group * sg + lane * sl)] = total


@compiled(parallel=True)
def _pairs(x, maximum, sums, n, lanes, xg, xn, xl, mg, ml, sg, sl, units, tasks):
    if tasks == 1:
        _pairs_task(x, maximum, sums, n, lanes, xg, xn, xl, mg, ml, sg, sl, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _pairs_task(x, maximum, sums, n, lanes, xg, xn, xl, mg, ml, sg, sl, begin, end)


@register("cpu", "softmax_pairs", "online")
def online(x: torch.Tensor, maximum: torch.Tensor, total: torch.Tensor) -> Launch:
    """A running maximum and sum over blocks of each row; rows in parallel."""
    tensors = lanes_last(x, maximum, total)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    arrays = [flat(tensors[0], DTYPES[x.dtype]), *(flat(tensor, tensor.dtype) for tensor in tensors[1:])]
    groups, n, lanes = tensors[0].shape
    units = groups * lanes
    return launcher(tensors, arrays, (_pairs, (*arrays, n, lanes, *strides, units, tasks(units, x.numel()))))
