from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import lane_access, mean_functions, register_tiling, tile_starts, tile_sum_adders
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@make_once
def rms_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (_, inverse_root) = WIDE[dtype], constant(dtype, 0), mean_functions(dtype, tiling, eps)
    (load, value, store), (load_weight, _, _) = lane_access(dtype, tiling), lane_access(dtype, tiling, common=True)
    (_, add_products), find_row, tiles = tile_sum_adders(dtype, tiling, dtype), row_finder(tiling), tile_starts(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch
    HELD, EARLY = tiling.held, tiling.held and tiling.read_size <= 16

    def rms_norm(x, weight, out, rows, inner, n, x_at, out_at, phase, weight_at):
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        squares = (ZERO, ZERO)
        for start in tiles(length, lanes):
            load(x, source, x_at.step, lane, lanes, start, length, words)
            load_weight(weight, 0, weight_at.step, lane, lanes, start, length, weights)
            for j in range(SIZE):
                values[j] = value(words, j)
            squares = add_products(squares, values, values)
        scale = inverse_root(squares, n, scratch)
        for start in tiles(length, lanes):
            if not HELD:
                load(x, source, x_at.step, lane, lanes, start, length, words)
            if not EARLY:
                load_weight(weight, 0, weight_at.step, lane, lanes, start, length, weights)
            for j in range(SIZE):
                values[j] = value(words, j) * scale * value(weights, j)
            store(out, target, out_at.step, lane, lanes, start, length, values)

    return Source(rms_norm, (dtype,) * 3, tiling.threads, tiling.blocks, inputs=2)


@register("numba", "rms_norm", "rows")
@plan_once()
def rows(v: RowView, eps: float) -> BindView:
    """Lanes add up squares, then the row is scaled and written. Rows that don't fit in registers are read again."""
    return bind_over_rows("numba/rms_norm/rows", partial(rms_norm_kernel, eps=eps), register_tiling(v), v)
