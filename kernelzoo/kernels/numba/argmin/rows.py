"""Lanes go along a row, and each keeps the least element so far and its place."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.lanes import lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import block_reduce, row_offsets, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def argmin_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, HIGHEST, NOWHERE = WIDE[dtype], highest(dtype), highest("int64")
    load, _ = machine.element_functions(dtype)
    _, store = machine.element_functions("int64")
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    _, block_first, _ = block_reduce(tiling, NOWHERE)
    mapping, ROWS, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.scratch

    def argmin(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        values = cuda.shared.array(SCRATCH, kind)
        places = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, group = mapping()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        source, target = row_offsets(r, inner, x_outer, x_inner, out_outer, out_inner)
        least, place = HIGHEST, NOWHERE
        for i in range(lane, n, lanes):
            v = load(x, source + i * x_step)
            # A NaN, which is not equal to itself, is less than all others.
            if place == NOWHERE or v < least or (v != v and least == least):
                least, place = v, i
        lowest = block_min(least, values)
        found = least == lowest or (least != least and lowest != lowest)
        place = block_first(place if found else NOWHERE, places)
        if lane == 0 and r < rows:
            store(out, target, place)

    return Source(argmin, (dtype, "int64"), tiling.threads, (dtype, tiling))


@register("numba", "argmin", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """In each lane the least element so far and its place; lanes meet after the loop."""
    return over_rows("numba/argmin/rows", argmin_kernel, lanes_tiling(v), v, device)
