"""Blocks take rows in turn, and leave sums over their rows for weight and bias; two more launches add these up."""

import math
from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, number, word_type
from kernelzoo.kernels.numba.lanes import add_exactly, lane_sum, place_of, row_values, tile_squares, tile_sum, tree_sum
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
    add_tile, add_squares = tile_sum(dtype, tiling, dtype), tile_squares(dtype, tiling)
    (begin, add, leave), add_up = sums_over_rows(dtype, tiling), tree_sum(tiling.size)
    WORD, WORDS, SIZE, SCRATCH = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.scratch
    over_lanes, place_in, mapping = lane_sum(dtype, tiling), place_of(tiling), thread_mapping(tiling)
    ROWS, HELD = tiling.rows, tiling.held

    def backward(
        x, weight, grad, dx, partials, rows, inner, n, x_outer, x_step, x_inner, _0, _1, _2, phase, weight_outer,
        weight_step, weight_inner, grad_outer, grad_step, grad_inner, dx_outer, dx_step, dx_inner, _3, _4, _5,
    ):  # fmt: skip
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        grads = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        of_weight = cuda.local.array(SIZE, kind)
        of_bias = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        block, blocks = types.int64(cuda.blockIdx.x), types.int64(cuda.gridDim.x)
        base, after = (block * ROWS + group) * n, ((blocks + block) * ROWS + group) * n
        begin(partials, base, lane, lanes, n, of_weight)
        begin(partials, after, lane, lanes, n, of_bias)
        for first in range(block * ROWS, rows, blocks * ROWS):
            length = n if first + group < rows else types.int64(0)
            outer, place = row_coords(first + group, inner)
            source, pulling = outer * x_outer + place * x_inner, outer * grad_outer + place * grad_inner
            target = outer * dx_outer + place * dx_inner
            at = source, x_step, pulling, grad_step, weight_step, lane, lanes
            end, step = (1, 1) if HELD else (length, lanes * SIZE)  # a row that is held is one tile
            total, squares, pulls, products, a, b, c, d = ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO
            for start in range(0, end, step):
                read(x, grad, weight, at, start, length, words, grads, weights)
                total, a = add_tile(total, a, words)
            mean = over_lanes(total, a, scratch) / kind(n)
            for start in range(0, end, step):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    values[j] = value(grads, j) * value(weights, j)
                pulls, c = add_exactly(pulls, c, add_up(values, 0))
                for j in range(SIZE):
                    values[j] *= value(words, j) - mean
                products, d = add_exactly(products, d, add_up(values, 0))
                for j in range(SIZE):
                    values[j] = value(words, j) - mean if place_in(lane, lanes, start, j) < length else ZERO
                squares, b = add_squares(squares, b, values)
            scale = ONE / kind(math.sqrt(over_lanes(squares, b, scratch) / kind(n) + EPS))
            pull, slope = over_lanes(pulls, c, scratch) / kind(n), over_lanes(products, d, scratch) / kind(n) * scale
            for start in range(0, end, step):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    g, u, k = value(grads, j), (value(words, j) - mean) * scale, place_in(lane, lanes, start, j)
                    values[j] = scale * (g * value(weights, j) - pull - u * slope)
                    add(partials, base, k, length, of_weight, j, g * u)
                    add(partials, after, k, length, of_bias, j, g)
                store(dx, target, dx_step, lane, lanes, start, length, values)
        leave(partials, base, lane, lanes, n, of_weight)
        leave(partials, after, lane, lanes, n, of_bias)

    return Source(backward, (*[dtype] * 4, str(kind)), tiling.threads, (dtype, tiling, eps), inputs=4)


@register("numba", "layer_norm_backward", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Blocks take rows in turn, in registers if these hold them, and keep sums, which two more launches add up."""
    return by_turns(partial(backward_kernel, eps=eps), v, device, sums=2)
