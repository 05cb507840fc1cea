from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import lane_means, register_tiling, row_indexer, row_io, tile_adders, tile_loop
from kernelzoo.kernels.numba.launch import BindView, Source, Tiling, View, bind_over_rows, kernel, planned
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@kernel
def layer_norm_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (mean_of, inverse_root) = WIDE[dtype], constant(dtype, 0), lane_means(dtype, tiling, eps)
    (load, value, store), (load_shared, _, _) = row_io(dtype, tiling), row_io(dtype, tiling, shared=True)
    (add_tile, add_products), find_row = tile_adders(dtype, tiling, dtype), row_finder(tiling)
    tiles, place = tile_loop(tiling), row_indexer(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.word(dtype), tiling.words(dtype), tiling.size, tiling.scratch
    HELD, EARLY, VEC = tiling.held, tiling.held and tiling.size <= 16, tiling.vec

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
@planned()
def rows(v: View, eps: float) -> BindView:
    """The mean comes first, then squared distances from it. Rows that don't fit in registers are read three times."""
    return bind_over_rows("numba/layer_norm/rows", partial(layer_norm_kernel, eps=eps), register_tiling(v), v)
