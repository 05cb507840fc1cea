"""Blocks take rows in turn, and leave sums over their rows for the weight; a second launch adds these up."""

import math
from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, number, word_type
from kernelzoo.kernels.numba.lanes import add_exactly, lane_sum, place_of, row_values, tile_squares, tree_sum
from kernelzoo.kernels.numba.launch import BindView, planned
from kernelzoo.kernels.numba.partials import by_turns, sums_over_rows, three_loads
from kernelzoo.kernels.numba.row import row_coords, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def backward_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    (_, value, store), (read, read_again) = row_values(dtype, tiling), three_loads(dtype, tiling)
    add_squares, add_up, sum_over_lanes = tile_squares(dtype, tiling), tree_sum(tiling.size), lane_sum(dtype, tiling)
    (begin, add, leave), place_in, mapping = sums_over_rows(dtype, tiling), place_of(tiling), thread_mapping(tiling)
    WORD, WORDS, SIZE, SCRATCH = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.scratch
    ROWS, HELD = tiling.rows, tiling.held

    def backward(
        x, weight, grad, dx, partials, rows, inner, n, x_outer, x_step, x_inner, _0, _1, _2, phase,
        weight_outer, weight_step, weight_inner, grad_outer, grad_step, grad_inner, dx_outer, dx_step, dx_inner,
    ):  # fmt: skip
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        grads = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        sums = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        base = (block * ROWS + group) * n
        begin(partials, base, lane, lanes, n, sums)
        for first in range(block * ROWS, rows, cuda.gridDim.x * ROWS):
            length = n if first + group < rows else types.int64(0)
            outer, place = row_coords(first + group, inner)
            source, pulled = outer * x_outer + place * x_inner, outer * grad_outer + place * grad_inner
            target = outer * dx_outer + place * dx_inner
            at = source, x_step, pulled, grad_step, weight_step, lane, lanes
            end, step = (1, 1) if HELD else (length, lanes * SIZE)  # a row that is held is one tile
            squares, lost, products, lost_too = ZERO, ZERO, ZERO, ZERO
            for start in range(0, end, step):
                read(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    values[j] = value(words, j)
                squares, lost = add_squares(squares, lost, values)
                for j in range(SIZE):
                    values[j] *= value(grads, j) * value(weights, j)
                products, lost_too = add_exactly(products, lost_too, add_up(values, 0))
            scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost, scratch) / kind(n) + EPS))
            slope = sum_over_lanes(products, lost_too, scratch) / kind(n) * scale * scale
            for start in range(0, end, step):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    v, g = value(words, j), value(grads, j)
                    values[j] = scale * (g * value(weights, j) - v * slope)
                    add(partials, base, place_in(lane, lanes, start, j), length, sums, j, g * (v * scale))
                store(dx, target, dx_step, lane, lanes, start, length, values)
        leave(partials, base, lane, lanes, n, sums)

    pointees = (*[dtype] * 4, str(kind))
    return Source(backward, pointees, tiling.threads, (dtype, tiling, eps), inputs=4)


@register("numba", "rms_norm_backward", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Blocks take rows in turn, in registers if those hold them, and keep sums for the weight, which others add up."""
    return by_turns(partial(backward_kernel, eps=eps), v, device)
