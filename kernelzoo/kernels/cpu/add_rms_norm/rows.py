import numpy as np
import torch

from kernelzoo.kernels.cpu.device_functions import offset, round_like, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.cpu.rms_norm.rows import row_scale
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@parallel_kernel()
def _rows(
    x, residual, weight, out, total, n, lanes, xg, xn, xl, rg, rn, rl, wn, og, on, ol, tg, tn, tl, eps, first, last
):
    n, xn, rn, wn, on, tn = np.uint64(n), np.uint64(xn), np.uint64(rn), np.uint64(wn), np.uint64(on), np.uint64(tn)
    for row in range(first, last):
        at, beside = offset(row, lanes, xg, xl), offset(row, lanes, rg, rl)
        to, sums = offset(row, lanes, og, ol), offset(row, lanes, tg, tl)
        for j in range(n):
            total[sums + j * tn] = round_like(widen(x[at + j * xn]) + widen(residual[beside + j * rn]), total[sums])
        scale = row_scale(total, sums, tn, n, eps)
        for j in range(n):
            out[to + j * on] = round_like(widen(total[sums + j * tn]) * scale * widen(weight[j * wn]), out[to])


@register("cpu", "add_rms_norm", "rows")
def rows(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, total: torch.Tensor, eps: float
) -> Launch:
    """The sum of two rows is written, and read twice from cache: for its squares, then for the result."""
    x, residual, out, total = move_lanes_last(x, residual, out, total)
    return bind_launch(_rows, (x, residual, weight, out, total), x.size(0) * x.size(2), float(eps))
