"""Blocks take rows in turn, and leave sums over their rows for the weight; a second launch adds these up."""

import math
from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import add_exactly, lane_sum
from kernelzoo.kernels.numba.launch import BindView, planned
from kernelzoo.kernels.numba.partials import by_turns, row_sum
from kernelzoo.kernels.numba.row import row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def backward_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    load, store = machine.element_functions(dtype)
    _, store_wide = machine.element_functions(str(kind))
    sum_over_lanes, add_rows = lane_sum(dtype, tiling), row_sum(dtype, tiling)
    mapping, ROWS, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.scratch

    def backward(
        x, weight, grad, dx, partials, rows, inner, n, x_outer, x_step, x_inner, _0, _1, _2, phase,
        weight_outer, weight_step, weight_inner, grad_outer, grad_step, grad_inner, dx_outer, dx_step, dx_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            store_wide(partials, block * n + k, ZERO)
        for first in range(block * ROWS, rows, cuda.gridDim.x * ROWS):
            length = n if first + group < rows else types.int64(0)
            outer, place = row_coords(first + group, inner)
            source, pulled = outer * x_outer + place * x_inner, outer * grad_outer + place * grad_inner
            target = outer * dx_outer + place * dx_inner
            squares, lost, products, lost_too = ZERO, ZERO, ZERO, ZERO
            for k in range(lane, length, lanes):
                v, g = load(x, source + k * x_step), load(grad, pulled + k * grad_step)
                squares, lost = add_exactly(squares, lost, v * v)
                products, lost_too = add_exactly(products, lost_too, v * (g * load(weight, k * weight_step)))
            scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost, scratch) / kind(n) + EPS))
            slope = sum_over_lanes(products, lost_too, scratch) / kind(n) * scale * scale
            for start in range(0, n, lanes):  # as often in all threads, which meet
                k, term = start + lane, ZERO
                if k < length:
                    v, g = load(x, source + k * x_step), load(grad, pulled + k * grad_step)
                    store(dx, target + k * dx_step, scale * (g * load(weight, k * weight_step) - v * slope))
                    term = g * (v * scale)
                add_rows(partials, block * n, k, n, group, term)

    pointees = (*[dtype] * 4, str(kind))
    return Source(backward, pointees, tiling.threads, (dtype, tiling, eps), inputs=4)


@register("numba", "rms_norm_backward", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Blocks take rows in turn, in two passes each, and keep sums for the weight, which a second launch adds up."""
    return by_turns(partial(backward_kernel, eps=eps), v, device)
