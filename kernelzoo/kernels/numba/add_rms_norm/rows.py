"""Lanes go along a row: they write sums, add up their squares, and write the norm."""

import math
from functools import cache, partial

from numba import cuda

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, number, word_type
from kernelzoo.kernels.numba.lanes import held_tiling, lane_sum, own_row, rounding, row_values, tile_squares
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import row_coords
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def add_rms_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, ONE, EPS = WIDE[dtype], number(dtype, 0), number(dtype, 1), number(dtype, eps)
    (load, value, store), (load_weight, _, _) = row_values(dtype, tiling), row_values(dtype, tiling, shared=True)
    round_off = rounding(dtype)
    sum_over_lanes, add_squares, find = lane_sum(dtype, tiling), tile_squares(dtype, tiling), own_row(tiling)
    WORD, WORDS, SIZE, SCRATCH = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.scratch
    HELD, EARLY = tiling.held, tiling.held and tiling.size <= 16

    @cuda.jit(device=True, inline="always")
    def add(x, source, x_step, residual, added, residual_step, lane, lanes, start, n, values):
        words = cuda.local.array(WORDS, WORD)
        others = cuda.local.array(WORDS, WORD)
        load(x, source, x_step, lane, lanes, start, n, words)
        load(residual, added, residual_step, lane, lanes, start, n, others)
        for j in range(SIZE):
            values[j] = round_off(value(words, j) + value(others, j))

    def add_rms_norm(
        x, residual, weight, out, total, rows, inner, n, x_outer, x_step, x_inner, total_outer, total_step, total_inner,
        phase, residual_outer, residual_step, residual_inner, weight_outer, weight_step, weight_inner,
        out_outer, out_step, out_inner,
    ):  # fmt: skip
        values = cuda.local.array(SIZE, kind)
        weights = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find(rows, n)
        outer, place = row_coords(r, inner)
        source, added = outer * x_outer + place * x_inner, outer * residual_outer + place * residual_inner
        target, whole_row = outer * out_outer + place * out_inner, outer * total_outer + place * total_inner
        squares, lost = ZERO, ZERO
        end, step = (1, 1) if HELD else (length, lanes * SIZE)  # a row that is held is one tile
        for start in range(0, end, step):
            add(x, source, x_step, residual, added, residual_step, lane, lanes, start, length, values)
            load_weight(weight, 0, weight_step, lane, lanes, start, length, weights)
            store(total, whole_row, total_step, lane, lanes, start, length, values)
            squares, lost = add_squares(squares, lost, values)
        scale = ONE / kind(math.sqrt(sum_over_lanes(squares, lost, scratch) / kind(n) + EPS))
        for start in range(0, end, step):
            if not HELD:
                add(x, source, x_step, residual, added, residual_step, lane, lanes, start, length, values)
            if not EARLY:
                load_weight(weight, 0, weight_step, lane, lanes, start, length, weights)
            for j in range(SIZE):
                values[j] = values[j] * scale * value(weights, j)
            store(out, target, out_step, lane, lanes, start, length, values)

    return Source(add_rms_norm, (dtype,) * 5, tiling.threads, (dtype, tiling, eps), tiling.blocks, inputs=4)


@register("numba", "add_rms_norm", "rows")
@planned()
def rows(v: View, device: Device, _: None, eps: float) -> BindView:
    """Sums are written, and their squares added up in each lane; of a row in registers, or one that is added again."""
    return over_rows("numba/add_rms_norm/rows", partial(add_rms_norm_kernel, eps=eps), held_tiling(v), v, device)
