import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, exponential, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def row_maximum(x, at, step, n):
    """Return the maximum of a row, ignoring NaN."""
    top = type(zero_sum(x))(-np.inf)
    for j in range(n):
        value = widen(x[at + j * step])
        top = value if value > top else top
    return top


@njit(fastmath={"reassoc"})
def sum_exponentials(x, at, step, n, top):
    """Return the sum of exp(x - top) over n elements. An element equal to ``top`` adds 1, as inf - inf is NaN."""
    zero = zero_sum(x)
    total, one = zero, type(zero)(1)
    for j in range(n):
        value = widen(x[at + j * step])
        total += one if value == top else exponential(value - top)
    return total


@parallel_kernel()
def _rows(x, out, n, lanes, xg, xn, xl, og, ol, first, last):
    n, xn, block = np.uint64(n), np.uint64(xn), block_length(np.uint64(xn))
    for row in range(first, last):
        at, total, carry = offset(row, lanes, xg, xl), zero_sum(x), zero_sum(x)
        top = row_maximum(x, at, xn, n)
        for j in range(np.uint64(0), n, block):
            term = sum_exponentials(x, at + j * xn, xn, min(block, n - j), top)
            total, carry = two_sum(total, carry, term)
        to = offset(row, lanes, og, ol)
        out[to] = round_like(np.log(add_carry(total, carry)) + top, out[to])


@register("cpu", "logsumexp", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A row is read twice, the second time from cache: for its maximum, and for the sum of exponentials."""
    return bind_launch(_rows, move_lanes_last(x, out), x.size(0) * x.size(2))
