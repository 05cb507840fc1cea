import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.cpu.logsumexp.rows import row_maximum, sum_exponentials
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def row_state(x, at, step, n):
    """Return a row's (max, sum of exp(x - max)). The sum is NaN if the row has +inf or only -inf, as is its softmax."""
    top, block, total, carry = row_maximum(x, at, step, n), block_length(step), zero_sum(x), zero_sum(x)
    for j in range(np.uint64(0), n, block):
        term = sum_exponentials(x, at + j * step, step, min(block, n - j), top)
        total, carry = two_sum(total, carry, term)
    return top, add_carry(total, carry) + (top - top)


@parallel_kernel()
def _rows(x, labels, loss, n, lanes, xg, xn, xl, lg, ll, og, ol, ignore_index, first, last):
    n, xn = np.uint64(n), np.uint64(xn)
    for row in range(first, last):
        at, to, label = offset(row, lanes, xg, xl), offset(row, lanes, og, ol), labels[offset(row, lanes, lg, ll)]
        if label == ignore_index:
            loss[to] = round_like(zero_sum(x), loss[to])
            continue
        top, total = row_state(x, at, xn, n)
        picked = widen(x[at + np.uint64(label) * xn]) if 0 <= label < np.int64(n) else type(total)(np.nan)
        loss[to] = round_like(np.log(total) - (picked - top), loss[to])


@register("cpu", "cross_entropy", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, loss: torch.Tensor, ignore_index: int) -> Launch:
    """A row's maximum is found first, then its exponentials are summed in blocks. Rows run in parallel."""
    return bind_launch(_rows, move_lanes_last(x, labels, loss), x.size(0) * x.size(2), ignore_index)
