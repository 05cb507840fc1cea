"""Lanes go along a row: its mean, its variance, and what is written, a pass each."""

import math
from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import add_exactly, lane_sum, lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import row_offsets, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def layer_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    load, store = machine.element_functions(dtype)
    sum_over_lanes, mapping = lane_sum(dtype, tiling), thread_mapping(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def layer_norm(
        x, weight, bias, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        weight_outer, weight_step, weight_inner, bias_outer, bias_step, bias_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = row_offsets(r, inner, x_outer, x_inner, out_outer, out_inner)
        total, lost, squares, lost_too = ZERO, ZERO, ZERO, ZERO
        for i in range(lane, length, lanes):
            total, lost = add_exactly(total, lost, load(x, source + i * x_step))
        mean = sum_over_lanes(total, lost, scratch) / kind(n)
        for i in range(lane, length, lanes):
            away = load(x, source + i * x_step) - mean
            squares, lost_too = add_exactly(squares, lost_too, away * away)
        scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost_too, scratch) / kind(n) + EPS))
        for i in range(lane, length, lanes):
            v = (load(x, source + i * x_step) - mean) * scale * load(weight, i * weight_step)
            store(out, target + i * out_step, v + load(bias, i * bias_step))

    return Source(layer_norm, (dtype,) * 4, tiling.threads, (dtype, tiling, eps), inputs=3)


@register("numba", "layer_norm", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """The mean, then squared distances from it; then a row is read again, from cache, and written."""
    return over_rows("numba/layer_norm/rows", partial(layer_norm_kernel, eps=eps), lanes_tiling(v), v, device)
