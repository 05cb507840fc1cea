import numpy as np
import torch

from kernelzoo.kernels.cpu.cross_entropy.rows import row_state
from kernelzoo.kernels.cpu.device_functions import exponential, offset, round_like, widen, zero_sum
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@parallel_kernel(error_model="numpy")
def _rows(x, labels, grad, out, n, lanes, xg, xn, xl, lg, ll, gg, gl, og, on, ol, ignore_index, first, last):
    n, xn, on, zero = np.uint64(n), np.uint64(xn), np.uint64(on), zero_sum(x)
    one = type(zero)(1)
    for row in range(first, last):
        at, to, label = offset(row, lanes, xg, xl), offset(row, lanes, og, ol), labels[offset(row, lanes, lg, ll)]
        if label == ignore_index:
            for j in range(n):
                out[to + j * on] = round_like(zero, out[to])
            continue
        factor = widen(grad[offset(row, lanes, gg, gl)]) if 0 <= label < np.int64(n) else type(zero)(np.nan)
        top, total = row_state(x, at, xn, n)
        for j in range(n):
            share = exponential(widen(x[at + j * xn]) - top) * (one / total)
            right = one if j == np.uint64(label) else zero
            out[to + j * on] = round_like(factor * (share - right), out[to])


@register("cpu", "cross_entropy_backward", "rows")
def rows(x: torch.Tensor, labels: torch.Tensor, grad: torch.Tensor, out: torch.Tensor, ignore_index: int) -> Launch:
    """A row's (max, sum) is found first, then grad * (softmax(x) - onehot(label)) is written. Rows run in parallel."""
    return bind_launch(_rows, move_lanes_last(x, labels, grad, out), x.size(0) * x.size(2), ignore_index)
