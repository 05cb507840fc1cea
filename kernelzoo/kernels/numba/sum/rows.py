"""Lanes go along a row, and each keeps a sum and what it rounded off."""

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
def sum_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, ZERO = WIDE[out_dtype], number(out_dtype, 0)
    load, _ = machine.element_functions(dtype)
    _, store = machine.element_functions(out_dtype)
    sum_over_lanes, mapping = lane_sum(out_dtype, tiling), thread_mapping(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def sum_rows(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        source, target = row_offsets(r, inner, x_outer, x_inner, out_outer, out_inner)
        total, lost = ZERO, ZERO
        for i in range(lane, n, lanes):
            total, lost = add_exactly(total, lost, kind(load(x, source + i * x_step)))
        total = sum_over_lanes(total, lost, scratch)
        if lane == 0 and r < rows:
            store(out, target, total)

    return Source(sum_rows, (dtype, out_dtype), tiling.threads, (dtype, tiling, out_dtype))


@register("numba", "sum", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """A sum in each lane with what it rounded off; lanes meet in a tree after the loop."""
    return over_rows("numba/sum/rows", partial(sum_kernel, out_dtype=v.out_dtype), lanes_tiling(v), v, device)
