"""Lanes go along a row: they add up its squares, and read it again to write."""

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
def rms_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    load, store = machine.element_functions(dtype)
    sum_over_lanes, mapping = lane_sum(dtype, tiling), thread_mapping(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def rms_norm(
        x, weight, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        weight_outer, weight_step, weight_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = row_offsets(r, inner, x_outer, x_inner, out_outer, out_inner)
        squares, lost = ZERO, ZERO
        for i in range(lane, length, lanes):
            v = load(x, source + i * x_step)
            squares, lost = add_exactly(squares, lost, v * v)
        scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost, scratch) / kind(n) + EPS))
        for i in range(lane, length, lanes):
            v = load(x, source + i * x_step) * scale * load(weight, i * weight_step)
            store(out, target + i * out_step, v)

    return Source(rms_norm, (dtype,) * 3, tiling.threads, (dtype, tiling, eps), inputs=2)


@register("numba", "rms_norm", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Squares are added up in each lane; then a row is read again, from cache, and written."""
    return over_rows("numba/rms_norm/rows", partial(rms_norm_kernel, eps=eps), lanes_tiling(v), v, device)
