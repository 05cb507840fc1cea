import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import add_carry, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.cpu.sum.rows import block_length, block_sum
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def subtract_mean(element, mean):
    """Return element - mean. It is a separate function so that only the sums may be reordered ('reassoc')."""
    return widen(element) - mean


@njit(fastmath={"reassoc"})
def sum_distances(x, at, step, n, mean):
    """Return the sum of (element - mean), and the sum of (element - mean)^2, over n elements."""
    total = squares = mean - mean
    if step == np.uint64(1):
        for j in range(n):
            away = subtract_mean(x[at + j], mean)
            total, squares = total + away, squares + away * away
    else:
        for j in range(n):
            away = subtract_mean(x[at + j * step], mean)
            total, squares = total + away, squares + away * away
    return total, squares


@njit(error_model="numpy")
def mean_and_scale(x, at, step, n, eps):
    """Return a row's mean, and 1 / sqrt(variance + eps). The second pass corrects the mean's rounding error. If all
    elements are equal, only that error differs from 0."""
    zero, block = zero_sum(x), block_length(step)
    total = lost = rest = squares = off = zero
    real = type(zero)
    for j in range(np.uint64(0), n, block):
        total, lost = two_sum(total, lost, block_sum(x, at + j * step, step, min(block, n - j), zero))
    mean = add_carry(total, lost) / real(n)
    for j in range(np.uint64(0), n, block):
        more = sum_distances(x, at + j * step, step, min(block, n - j), mean)
        rest, (squares, off) = rest + more[0], two_sum(squares, off, more[1])
    return mean + rest / real(n), real(1) / np.sqrt(add_carry(squares, off) / real(n) + real(eps))


@parallel_kernel()
def _rows(x, weight, bias, out, n, lanes, xg, xn, xl, wn, bn, og, on, ol, eps, first, last):
    n, xn, wn, bn, on = np.uint64(n), np.uint64(xn), np.uint64(wn), np.uint64(bn), np.uint64(on)
    for row in range(first, last):
        at, to = offset(row, lanes, xg, xl), offset(row, lanes, og, ol)
        mean, scale = mean_and_scale(x, at, xn, n, eps)
        for j in range(n):
            normal = (widen(x[at + j * xn]) - mean) * scale
            out[to + j * on] = round_like(normal * widen(weight[j * wn]) + widen(bias[j * bn]), out[to])


@register("cpu", "layer_norm", "rows")
def rows(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, eps: float) -> Launch:
    """Three passes over a row, the last two from cache: mean, variance, result. Rows run in parallel."""
    x, out = move_lanes_last(x, out)
    return bind_launch(_rows, (x, weight, bias, out), x.size(0) * x.size(2), float(eps))
