from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import element_indexer, lane_access, mean_functions, tile_starts, tile_sum_adders
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.partials import bind_with_partials, group_rows_finder, input_readers, partial_sum_functions
from kernelzoo.kernels.numba.row import row_coords, row_start
from kernelzoo.registry import register


@make_once
def backward_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (mean_of, inverse_root) = WIDE[dtype], constant(dtype, 0), mean_functions(dtype, tiling, eps)
    (_, value, store), (read, read_again) = lane_access(dtype, tiling), input_readers(dtype, tiling)
    _, add_products = tile_sum_adders(dtype, tiling, dtype)
    zero_sums, add, store_sums = partial_sum_functions(dtype, tiling, 1)
    find_rows, tiles, place_in = group_rows_finder(tiling), tile_starts(tiling), element_indexer(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch

    def backward(x, weight, grad, dx, partials, rows, inner, n, x_at, dw_at, phase, weight_at, grad_at, dx_at):
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        grads = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        pulls = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, mine, own_rows = find_rows(rows)
        places, sums = zero_sums(partials, mine, lane, lanes, n)
        for r in own_rows:
            length = n if r < rows else 0
            place = row_coords(r, inner)
            at = row_start(x_at, place), x_at.step, row_start(grad_at, place), grad_at.step, weight_at.step, lane, lanes
            squares, products = (ZERO, ZERO), (ZERO, ZERO)
            for start in tiles(length, lanes):
                read(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    values[j], pulls[j] = value(words, j), value(grads, j) * value(weights, j)
                squares = add_products(squares, values, values)
                products = add_products(products, values, pulls)
            scale = inverse_root(squares, n, scratch)
            slope = mean_of(products, n, scratch) * scale * scale
            for start in tiles(length, lanes):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    v, g = value(words, j), value(grads, j)
                    values[j] = scale * (g * value(weights, j) - v * slope)
                    add(partials, places, place_in(lane, lanes, start, j), length, sums, j, (g * (v * scale),))
                store(dx, row_start(dx_at, place), dx_at.step, lane, lanes, start, length, values)
        store_sums(partials, places, lane, lanes, n, sums)

    return Source(backward, (*[dtype] * 4, str(kind)), tiling.threads, inputs=4)


@register("numba", "rms_norm_backward", "rows")
@plan_once()
def rows(v: RowView, eps: float) -> BindView:
    """Blocks stride over rows, in registers if they fit, and keep partial sums. A second launch adds these up."""
    return bind_with_partials(partial(backward_kernel, eps=eps), v)
