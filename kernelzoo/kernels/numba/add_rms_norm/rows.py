"""Lanes go along a row: they write sums and add up their squares, and read them again to write the norm."""

import math
from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import add_exactly, lane_sum, lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def add_rms_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    load, store = machine.element_functions(dtype)
    sum_over_lanes, mapping = lane_sum(dtype, tiling), thread_mapping(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def add_rms_norm(
        x, residual, weight, out, total, rows, inner, n, x_outer, x_step, x_inner, total_outer, total_step, total_inner,
        phase, residual_outer, residual_step, residual_inner, weight_outer, weight_step, weight_inner,
        out_outer, out_step, out_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        outer, place = row_coords(r, inner)
        source, added = outer * x_outer + place * x_inner, outer * residual_outer + place * residual_inner
        target, whole_row = outer * out_outer + place * out_inner, outer * total_outer + place * total_inner
        squares, lost = ZERO, ZERO
        for i in range(lane, length, lanes):
            v = load(x, source + i * x_step) + load(residual, added + i * residual_step)
            store(total, whole_row + i * total_step, v)
            v = load(total, whole_row + i * total_step)  # rounded
            squares, lost = add_exactly(squares, lost, v * v)
        scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost, scratch) / kind(n) + EPS))
        for i in range(lane, length, lanes):
            v = load(total, whole_row + i * total_step) * scale * load(weight, i * weight_step)
            store(out, target + i * out_step, v)

    return Source(add_rms_norm, (dtype,) * 5, tiling.threads, (dtype, tiling, eps), inputs=4)


@register("numba", "add_rms_norm", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Sums are written, and their squares added up in each lane; then they are read again, from cache."""
    return over_rows("numba/add_rms_norm/rows", partial(add_rms_norm_kernel, eps=eps), lanes_tiling(v), v, device)
