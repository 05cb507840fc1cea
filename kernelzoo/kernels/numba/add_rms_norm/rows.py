from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import (
    lane_access,
    mean_functions,
    register_tiling,
    round_function,
    tile_starts,
    tile_sum_adders,
)
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_coords, row_finder, row_start
from kernelzoo.registry import register


@make_once
def add_rms_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (_, inverse_root) = WIDE[dtype], constant(dtype, 0), mean_functions(dtype, tiling, eps)
    (load, value, store), (load_weight, _, _) = lane_access(dtype, tiling), lane_access(dtype, tiling, common=True)
    (_, add_products), round_off = tile_sum_adders(dtype, tiling, dtype), round_function(dtype)
    find_row, tiles = row_finder(tiling), tile_starts(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch
    HELD, EARLY = tiling.held, tiling.held and tiling.read_size <= 16

    @cuda.jit(device=True, inline="always")
    def add_inputs(x, source, x_step, residual, added, residual_step, lane, lanes, start, n, values):
        words = cuda.local.array(WORDS, WORD)
        others = cuda.local.array(WORDS, WORD)
        load(x, source, x_step, lane, lanes, start, n, words)
        load(residual, added, residual_step, lane, lanes, start, n, others)
        for j in range(SIZE):
            values[j] = round_off(value(words, j) + value(others, j))

    def add_rms_norm(
        x, residual, weight, out, total, rows, inner, n, x_at, total_at, phase, residual_at, weight_at, out_at
    ):
        values = cuda.local.array(SIZE, kind)
        weights = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        place = row_coords(r, inner)
        source, added = row_start(x_at, place), row_start(residual_at, place)
        target, whole_row = row_start(out_at, place), row_start(total_at, place)
        squares = (ZERO, ZERO)
        for start in tiles(length, lanes):
            add_inputs(x, source, x_at.step, residual, added, residual_at.step, lane, lanes, start, length, values)
            load_weight(weight, 0, weight_at.step, lane, lanes, start, length, weights)
            store(total, whole_row, total_at.step, lane, lanes, start, length, values)
            squares = add_products(squares, values, values)
        scale = inverse_root(squares, n, scratch)
        for start in tiles(length, lanes):
            if not HELD:
                add_inputs(x, source, x_at.step, residual, added, residual_at.step, lane, lanes, start, length, values)
            if not EARLY:
                load_weight(weight, 0, weight_at.step, lane, lanes, start, length, weights)
            for j in range(SIZE):
                values[j] = values[j] * scale * value(weights, j)
            store(out, target, out_at.step, lane, lanes, start, length, values)

    return Source(add_rms_norm, (dtype,) * 5, tiling.threads, tiling.blocks, inputs=4)


@register("numba", "add_rms_norm", "rows")
@plan_once()
def rows(v: RowView, eps: float) -> BindView:
    """One pass writes sums and adds up their squares. A row that doesn't fit in registers is read and added again."""
    return bind_over_rows("numba/add_rms_norm/rows", partial(add_rms_norm_kernel, eps=eps), register_tiling(v), v)
