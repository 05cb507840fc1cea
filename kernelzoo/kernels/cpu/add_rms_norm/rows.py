import numpy as np
import torch

from kernelzoo.kernels.cpu.device_functions import place, rounded, widen
from kernelzoo.kernels.cpu.launch import bound, lanes_last, parallel
from kernelzoo.kernels.cpu.rms_norm.rows import scale_of
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@parallel()
def _rows(
    x, residual, weight, out, total, n, lanes, xg, xn, xl, rg, rn, rl, wn, og, on, ol, tg, tn, tl, eps, first, last
):
    n, xn, rn, wn, on, tn = np.uint64(n), np.uint64(xn), np.uint64(rn), np.uint64(wn), np.uint64(on), np.uint64(tn)
    for row in range(first, last):
        at, beside = place(row, lanes, xg, xl), place(row, lanes, rg, rl)
        to, sums = place(row, lanes, og, ol), place(row, lanes, tg, tl)
        for j in range(n):
            total[sums + j * tn] = rounded(widen(x[at + j * xn]) + widen(residual[beside + j * rn]), total[sums])
        scale = scale_of(total, sums, tn, n, eps)
        for j in range(n):
            out[to + j * on] = rounded(widen(total[sums + j * tn]) * scale * widen(weight[j * wn]), out[to])


@register("cpu", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """The sum of two rows is written, and read twice from cache: for its squares, then for the result."""
    x, residual, out, total = lanes_last(x, residual, out, total)
    return bound(_rows, (x, residual, weight, out, total), x.size(0) * x.size(2), float(eps))
