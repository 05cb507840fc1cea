import numpy as np
import torch
from numba import njit

from kernelzoo.kernels.cpu.device_functions import as_bits, as_float, offset, round_like, widen
from kernelzoo.kernels.cpu.launch import bind_launch, move_lanes_last, parallel_kernel
from kernelzoo.kernels.shared.float8 import LEAST, TOP
from kernelzoo.launch import Launch
from kernelzoo.registry import register


@njit
def absolute_maximum(x, at, step, n):
    """Return a row's absolute maximum: the largest of the bits without sign. NaN has the largest bits."""
    most = np.int32(0)
    if step == np.uint64(1):
        for j in range(n):
            most = max(most, np.int32(as_bits(widen(x[at + j])) & np.int32(0x7FFFFFFF)))
    else:
        for j in range(n):
            most = max(most, np.int32(as_bits(widen(x[at + j * step])) & np.int32(0x7FFFFFFF)))
    return as_float(most)


@parallel_kernel()
def _rows(x, values, scale, n, lanes, xg, xn, xl, vg, vn, vl, sg, sl, first, last):
    n, xn, vn = np.uint64(n), np.uint64(xn), np.uint64(vn)
    for row in range(first, last):
        at, to = offset(row, lanes, xg, xl), offset(row, lanes, vg, vl)
        top = absolute_maximum(x, at, xn, n)
        by = np.float32(1) if top < np.float32(LEAST) else top / np.float32(TOP)
        scale[offset(row, lanes, sg, sl)] = by
        for j in range(n):
            values[to + j * vn] = round_like(widen(x[at + j * xn]) / by, values[to])


@register("cpu", "quantize_rows", "rows")
def rows(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> Launch:
    """A row's absolute maximum gives its scale. A second read from cache divides by it. Rows run in parallel."""
    return bind_launch(_rows, move_lanes_last(x, values, scale), x.size(0) * x.size(2))
