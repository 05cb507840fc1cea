import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit(fastmath={"reassoc"})
def sum_squares(x, at, step, n, zero):
    total = zero
    if step == np.uint64(1):
        for j in range(n):
            total += widen(x[at + j]) * widen(x[at + j])
    else:
        for j in range(n):
            total += widen(x[at + j * step]) * widen(x[at + j * step])
    return total


@njit(error_model="numpy")
def row_scale(x, at, step, n, eps):
    """Return 1 / sqrt(mean(x^2) + eps) of a row."""
    zero, block = zero_sum(x), block_length(step)
    total, carry = zero, zero
    for j in range(np.uint64(0), n, block):
        total, carry = two_sum(total, carry, sum_squares(x, at + j * step, step, min(block, n - j), zero))
    one = type(zero)(1)
    return one / np.sqrt(add_carry(total, carry) / type(zero)(n) + type(zero)(eps))


@parallel_kernel()
def _rows(x, weight, out, n, lanes, xg, xn, xl, wn, og, on, ol, eps, first, last):
    n, xn, wn, on = np.uint64(n), np.uint64(xn), np.uint64(wn), np.uint64(on)
    for row in range(first, last):
        at, to = offset(row, lanes, xg, xl), offset(row, lanes, og, ol)
        scale = row_scale(x, at, xn, n, eps)
        for j in range(n):
            out[to + j * on] = round_like(widen(x[at + j * xn]) * scale * widen(weight[j * wn]), out[to])


@register("cpu", "rms_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """A row's squares are summed. A second read from cache gives the result. Rows run in parallel."""
    x, out = move_lanes_last(x, out)
    return bind_launch(_rows, (x, weight, out), x.size(0) * x.size(2), float(eps))
