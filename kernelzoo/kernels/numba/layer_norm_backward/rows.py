"""Blocks take rows in turn, and leave sums over their rows for weight and bias; two more launches add these up."""

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
    (load, store), (_, store_wide) = machine.element_functions(dtype), machine.element_functions(str(kind))
    over_lanes, add_rows = lane_sum(dtype, tiling), row_sum(dtype, tiling)
    mapping, ROWS, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.scratch

    def backward(
        x, weight, grad, dx, partials, rows, inner, n, x_outer, x_step, x_inner, _0, _1, _2, phase, weight_outer,
        weight_step, weight_inner, grad_outer, grad_step, grad_inner, dx_outer, dx_step, dx_inner, _3, _4, _5,
    ):  # fmt: skip
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        block, blocks = types.int64(cuda.blockIdx.x), types.int64(cuda.gridDim.x)
        weights, biases = block * n, (blocks + block) * n
        for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            store_wide(partials, weights + k, ZERO)
            store_wide(partials, biases + k, ZERO)
        for first in range(block * ROWS, rows, blocks * ROWS):
            length = n if first + group < rows else types.int64(0)
            outer, place = row_coords(first + group, inner)
            source, pulling = outer * x_outer + place * x_inner, outer * grad_outer + place * grad_inner
            target = outer * dx_outer + place * dx_inner
            total, squares, pulls, products, a, b, c, d = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
            for k in range(lane, length, lanes):
                total, a = add_exactly(total, a, load(x, source + k * x_step))
            mean = over_lanes(total, a, scratch) / kind(n)
            for k in range(lane, length, lanes):
                away = load(x, source + k * x_step) - mean
                pulled = load(grad, pulling + k * grad_step) * load(weight, k * weight_step)
                squares, b = add_exactly(squares, b, away * away)
                pulls, c = add_exactly(pulls, c, pulled)
                products, d = add_exactly(products, d, pulled * away)
            scale = ONE / kind(math.sqrt(over_lanes(squares, b, scratch) / kind(n) + EPS))
            pull, slope = over_lanes(pulls, c, scratch) / kind(n), over_lanes(products, d, scratch) / kind(n) * scale
            for start in range(0, n, lanes):  # as often in all threads, which meet
                k, g, u = start + lane, ZERO, ZERO
                if k < length:
                    g, u = load(grad, pulling + k * grad_step), (load(x, source + k * x_step) - mean) * scale
                    store(dx, target + k * dx_step, scale * (g * load(weight, k * weight_step) - pull - u * slope))
                add_rows(partials, weights, k, n, group, g * u)
                add_rows(partials, biases, k, n, group, g)

    return Source(backward, (*[dtype] * 4, str(kind)), tiling.threads, (dtype, tiling, eps), inputs=4)


@register("numba", "layer_norm_backward", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Blocks take rows in turn, in three passes each, and keep sums for weight and bias, which others add up."""
    return by_turns(partial(backward_kernel, eps=eps), v, device, sums=2)
