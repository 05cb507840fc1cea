import numpy as np
from numba import njit, prange
from torch import Tensor

from kernelzoo.kernels.cpu.device_functions import add_carry, empty, offset, round_like, two_sum, widen, zero_sum
from kernelzoo.kernels.cpu.launch import FIRST, bind_launch, cached_njit, move_lanes_last
from kernelzoo.kernels.cpu.layer_norm.rows import mean_and_scale, subtract_mean
from kernelzoo.kernels.cpu.sum.rows import block_length
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit(fastmath={"reassoc"})
def sum_gradient_products(x, at, xn, grad, beside, gn, weight, wat, wn, n, mean):
    """Return the sum of grad * weight, and the sum of grad * weight * (x - mean), over n elements."""
    total = products = mean - mean
    for j in range(n):
        pulled = widen(grad[beside + j * gn]) * widen(weight[wat + j * wn])
        total += pulled
        products += subtract_mean(x[at + j * xn], mean) * pulled
    return total, products


@cached_njit()
def _rows_task(
    x, weight, grad, dx, sums, carries, begin, n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, eps, first, last
):
    sums[begin : begin + 2 * n], carries[begin : begin + 2 * n] = 0, 0  # in _rows, Numba would make it parallel
    n, xn, wn, gn, on = np.uint64(n), np.uint64(xn), np.uint64(wn), np.uint64(gn), np.uint64(on)
    zero, block, begin = zero_sum(x), block_length(xn, gn, wn), np.uint64(begin)
    for row in range(first, last):
        at, beside, to = offset(row, lanes, xg, xl), offset(row, lanes, gg, gl), offset(row, lanes, og, ol)
        mean, scale = mean_and_scale(x, at, xn, n, eps)
        total = products = zero
        for j in range(np.uint64(0), n, block):
            count = min(block, n - j)
            more = sum_gradient_products(x, at + j * xn, xn, grad, beside + j * gn, gn, weight, j * wn, wn, count, mean)
            total, products = total + more[0], products + more[1]
        total, slope = total / type(zero)(n), products / type(zero)(n) * scale
        for j in range(n):
            normal, pull = (widen(x[at + j * xn]) - mean) * scale, widen(grad[beside + j * gn])
            dx[to + j * on] = round_like(scale * (pull * widen(weight[j * wn]) - total - normal * slope), dx[to])
            of_weight, of_bias = begin + j, begin + n + j
            sums[of_weight], carries[of_weight] = two_sum(sums[of_weight], carries[of_weight], pull * normal)
            sums[of_bias], carries[of_bias] = two_sum(sums[of_bias], carries[of_bias], pull)


@cached_njit(parallel=True)
def _rows(
    x, weight, grad, dx, dweight, dbias, n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, dn, bn, eps, units, tasks
):
    sums, carries = empty(2 * tasks * n, x), empty(2 * tasks * n, x)
    args = n, lanes, xg, xn, xl, wn, gg, gn, gl, og, on, ol, eps
    if tasks == 1:
        _rows_task(x, weight, grad, dx, sums, carries, 0, *args, FIRST, units)
    else:
        for i in prange(tasks):
            _rows_task(
                x, weight, grad, dx, sums, carries, 2 * i * n, *args, i * units // tasks, (i + 1) * units // tasks
            )
    for j in range(2 * n):
        total = zero_sum(x)
        for i in range(tasks):
            total += add_carry(sums[2 * i * n + j], carries[2 * i * n + j])
        if j < n:
            dweight[j * dn] = round_like(total, dweight[0])
        else:
            dbias[(j - n) * bn] = round_like(total, dbias[0])


@register("cpu", "layer_norm_backward", "rows")
def rows(x: Tensor, weight: Tensor, grad: Tensor, dx: Tensor, dweight: Tensor, dbias: Tensor, eps: float) -> Launch:
    """A row is read four times. Each thread sums its part of dweight and dbias; these sums are added at the end."""
    x, grad, dx = move_lanes_last(x, grad, dx)
    return bind_launch(_rows, (x, weight, grad, dx, dweight, dbias), x.size(0) * x.size(2), float(eps))
