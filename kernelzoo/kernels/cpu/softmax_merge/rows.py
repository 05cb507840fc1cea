"""Pairs merged, a row after the other: the largest maximum first, then the sum."""

import numpy as np
import torch
from numba import prange

from kernelzoo.kernels.cpu.disk import compiled
from kernelzoo.kernels.cpu.launch import FIRST, lanes_last
from kernelzoo.kernels.cpu.softmax.launching import bound
from kernelzoo.kernels.cpu.softmax.words import exponential, two_sum
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@compiled(error_model="numpy")
def _merge_task(maximum, total, largest, sums, n, lanes, mg, mn, ml, tg, tn, tl, lg, ll, sg, sl, first, last):
    zero, half = maximum.dtype.type(0), maximum.dtype.type(0.5)
    for unit in range(first, last):
        group, lane = unit // lanes, unit % lanes
        at, of = np.uint64(group * mg + lane * ml), np.uint64(group * tg + lane * tl)
        top = maximum[at]
        for j in range(n):
            one = maximum[at + np.uint64(j * mn)]
            top = one if one > top else top
        whole = carry = zero
        for j in range(n):
            one, part = maximum[at + np.uint64(j * mn)], total[of + np.uint64(j * tn)]
            # By the exponential of half the distance, twice: of the whole it may be no normal number where the term is.
            factor = exponential((one - top) * half)
            term = part * zero if one == -np.inf else part * factor * factor
            whole, carry = two_sum(whole, carry, term)
        whole = whole + carry if carry == carry else whole
        largest[np.uint64(group * lg + lane * ll)] = top if whole == whole else whole
        sums[np.uint64(group * sg + lane * sl)] = whole


@compiled(parallel=True)
def _merge(maximum, total, largest, sums, n, lanes, mg, mn, ml, tg, tn, tl, lg, ll, sg, sl, units, tasks):
    if tasks == 1:
        _merge_task(maximum, total, largest, sums, n, lanes, mg, mn, ml, tg, tn, tl, lg, ll, sg, sl, FIRST, units)
        return
    for i in prange(tasks):
        begin, end = i * units // tasks, (i + 1) * units // tasks
        _merge_task(maximum, total, largest, sums, n, lanes, mg, mn, ml, tg, tn, tl, lg, ll, sg, sl, begin, end)


@register("cpu", "softmax_merge", "rows")
def rows(maximum: torch.Tensor, total: torch.Tensor, largest: torch.Tensor, sum: torch.Tensor) -> Launch:
    """The largest maximum of each row, then the sum of its terms in order, with what it rounds off."""
    tensors = lanes_last(maximum, total, largest, sum)
    return bound(_merge, tensors, tensors[0].size(0) * tensors[0].size(2))
