import numpy as np
import torch
from numba import njit, prange

from kernelzoo.kernels.cpu.device_functions import add_carry, empty, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import FIRST, bind_launch, cached_njit, move_lanes_last
from kernelzoo.kernels.cpu.rms_norm.rows import row_scale
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit(fastmath={"reassoc"})
def sum_products(x, at, xn, grad, beside, gn, weight, wat, wn, n, zero):
    total = zero
    for j in range(n):
        total += widen(x[at + j * xn]) * (widen(grad[beside + j * gn]) * widen(weight[wat + j * wn]))
    return total


@cached_njit()
def _rows_task(
    x, weight, grad, dx, sums, carries, begin, n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, eps, first, last
):
    sums[begin : begin + n], carries[begin : begin + n] = 0, 0  # in _rows, Numba would make it parallel
    n, xn, wn, gn, on = np.uint64(n), np.uint64(xn), np.uint64(wn), np.uint64(gn), np.uint64(on)
    zero, block, begin = zero_sum(x), block_length(xn, gn, wn), np.uint64(begin)
    for row in range(first, last):
        at, beside, to = offset(row, lanes, xg, xl), offset(row, lanes, gg, gl), offset(row, lanes, og, ol)
        scale, total = row_scale(x, at, xn, n, eps), zero
        for j in range(np.uint64(0), n, block):
            count = min(block, n - j)
            total += sum_products(x, at + j * xn, xn, grad, beside + j * gn, gn, weight, j * wn, wn, count, zero)
        slope = total / type(zero)(n) * scale * scale
        for j in range(n):
            value, pull = widen(x[at + j * xn]), widen(grad[beside + j * gn])
            dx[to + j * on] = round_like(scale * (pull * widen(weight[j * wn]) - value * slope), dx[to])
            at_j = begin + j
            sums[at_j], carries[at_j] = two_sum(sums[at_j], carries[at_j], pull * (value * scale))


@cached_njit(parallel=True)
def _rows(x, weight, grad, dx, dweight, n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, dn, eps, units, tasks):
    sums, carries = empty(tasks * n, x), empty(tasks * n, x)
    args = n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, eps
    if tasks == 1:
        _rows_task(x, weight, grad, dx, sums, carries, 0, *args, FIRST, units)
    else:
        for i in prange(tasks):
            _rows_task(x, weight, grad, dx, sums, carries, i * n, *args, i * units // tasks, (i + 1) * units // tasks)
    for j in range(n):
        total = zero_sum(x)
        for i in range(tasks):
            total += add_carry(sums[i * n + j], carries[i * n + j])
        dweight[j * dn] = round_like(total, dweight[0])


@register("cpu", "rms_norm_backward", "rows")
def rows(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, dx: torch.Tensor, dweight: torch.Tensor, eps: float
) -> Launch:
    """A row is read three times. Each thread sums its part of dweight; these sums are added at the end."""
    x, grad, dx = move_lanes_last(x, grad, dx)
    return bind_launch(_rows, (x, weight, grad, dx, dweight), x.size(0) * x.size(2), float(eps))
