"""Lanes go along a row: an exponential of each element, times the row's gradient."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import exponential, machine
from kernelzoo.kernels.numba.lanes import lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def backward_kernel(dtype: str, tiling: Tiling) -> Source:
    load, store = machine.element_functions(dtype)
    mapping, ROWS = thread_mapping(tiling), tiling.rows

    def backward(
        x, y, grad, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, grad_outer, grad_step, grad_inner,
    ):  # fmt: skip
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            return
        outer, place = row_coords(r, inner)
        source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
        of_row = load(y, outer * y_outer + place * y_inner)
        slope = load(grad, outer * grad_outer + place * grad_inner)
        for i in range(lane, n, lanes):
            store(out, target + i * out_step, slope * exponential(load(x, source + i * x_step) - of_row))

    return Source(backward, (dtype,) * 4, tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "logsumexp_backward", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """An exponential of each element, times its row's gradient: one read and one write."""
    return over_rows("numba/logsumexp_backward/rows", backward_kernel, lanes_tiling(v), v, device)
