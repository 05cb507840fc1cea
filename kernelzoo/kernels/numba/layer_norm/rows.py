from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import (
    element_indexer,
    lane_access,
    mean_functions,
    register_tiling,
    tile_starts,
    tile_sum_adders,
)
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@make_once
def layer_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (mean_of, inverse_root) = WIDE[dtype], constant(dtype, 0), mean_functions(dtype, tiling, eps)
    (load, value, store), (load_shared, _, _) = lane_access(dtype, tiling), lane_access(dtype, tiling, common=True)
    (add_tile, add_products), find_row = tile_sum_adders(dtype, tiling, dtype), row_finder(tiling)
    tiles, place = tile_starts(tiling), element_indexer(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch
    HELD, EARLY, VEC = tiling.held, tiling.held and tiling.read_size <= 16, tiling.vec

    def layer_norm(x, weight, bias, out, rows, inner, n, x_at, out_at, phase, weight_at, bias_at):
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        biases = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        total, squares = (ZERO, ZERO), (ZERO, ZERO)
        for start in tiles(length, lanes):
            load(x, source, x_at.step, lane, lanes, start, length, words)
            load_shared(weight, 0, weight_at.step, lane, lanes, start, length, weights)
            load_shared(bias, 0, bias_at.step, lane, lanes, start, length, biases)
            total = add_tile(total, words)
        mean = mean_of(total, n, scratch)
        for start in tiles(length, lanes):
            if not HELD:
                load(x, source, x_at.step, lane, lanes, start, length, words)
            for j in range(SIZE):
                inside = place(lane, lanes, start, j - j % VEC) < length  # the same for a whole vector
                values[j] = value(words, j) - (mean if inside else ZERO)
            squares = add_products(squares, values, values)
        scale = inverse_root(squares, n, scratch)
        for start in tiles(length, lanes):
            if not HELD:
                load(x, source, x_at.step, lane, lanes, start, length, words)
            if not EARLY:
                load_shared(weight, 0, weight_at.step, lane, lanes, start, length, weights)
                load_shared(bias, 0, bias_at.step, lane, lanes, start, length, biases)
            for j in range(SIZE):
                values[j] = (value(words, j) - mean) * scale * value(weights, j) + value(biases, j)
            store(out, target, out_at.step, lane, lanes, start, length, values)

    return Source(layer_norm, (dtype,) * 4, tiling.threads, tiling.blocks, inputs=3)


@register("numba", "layer_norm", "rows")
@plan_once()
def rows(v: RowView, eps: float) -> BindView:
    """The mean comes first, then squared distances from it. Rows that don't fit in registers are read three times."""
    return bind_over_rows("numba/layer_norm/rows", partial(layer_norm_kernel, eps=eps), register_tiling(v), v)
