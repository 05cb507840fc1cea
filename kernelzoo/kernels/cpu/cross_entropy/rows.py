import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import place, rounded, two_sum, whole, widen, zero_of
from kernelzoo.kernels.cpu.launch import bound, lanes_last, parallel
from kernelzoo.kernels.cpu.logsumexp.rows import block_of_exponentials, top_of
from kernelzoo.kernels.cpu.sum.rows import block_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def row_state(x, at, step, n):
    """Return a row's (max, sum of exp(x - max)). The sum is NaN if the row has +inf or only -inf, as is its softmax."""
    top, block, total, carry = top_of(x, at, step, n), block_of(step), zero_of(x), zero_of(x)
    for j in range(np.uint64(0), n, block):
        term = block_of_exponentials(x, at + j * step, step, min(block, n - j), top)
        total, carry = two_sum(total, carry, term)
    return top, whole(total, carry) + (top - top)


@parallel()
def _rows(x, labels, loss, n, lanes, xg, xn, xl, lg, ll, og, ol, ignore_index, first, last):
    n, xn = np.uint64(n), np.uint64(xn)
    for row in range(first, last):
        at, to, label = place(row, lanes, xg, xl), place(row, lanes, og, ol), labels[place(row, lanes, lg, ll)]
        if label == ignore_index:
            loss[to] = rounded(zero_of(x), loss[to])
            continue
        top, total = row_state(x, at, xn, n)
        picked = widen(x[at + np.uint64(label) * xn]) if 0 <= label < np.int64(n) else type(total)(np.nan)
        loss[to] = rounded(np.log(total) - (picked - top), loss[to])


@register("cpu", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """A row's maximum is found first, then its exponentials are summed in blocks. Rows run in parallel."""
    return bound(_rows, lanes_last(x, labels, loss), x.size(0) * x.size(2), ignore_index)
