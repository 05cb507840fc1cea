from functools import partial

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import (
    add_exactly,
    element_indexer,
    lane_access,
    mean_functions,
    tile_starts,
    tile_sum_adders,
    tree_sum,
)
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.partials import bind_with_partials, group_rows_finder, input_readers, partial_sum_functions
from kernelzoo.kernels.numba.row import row_coords, row_start
from kernelzoo.registry import register


@make_once
def backward_kernel(dtype: str, tiling: Tiling, eps: float) -> Source:
    kind, ZERO, (mean_of, inverse_root) = WIDE[dtype], constant(dtype, 0), mean_functions(dtype, tiling, eps)
    (_, value, store), (read, read_again) = lane_access(dtype, tiling), input_readers(dtype, tiling)
    (add_tile, add_products), add_up = tile_sum_adders(dtype, tiling, dtype), tree_sum(tiling.read_size)
    (zero_sums, add, store_sums), find_rows = partial_sum_functions(dtype, tiling, 2), group_rows_finder(tiling)
    tiles, place_in, SCRATCH = tile_starts(tiling), element_indexer(tiling), tiling.scratch
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size

    def backward(x, weight, grad, dx, partials, rows, inner, n, x_at, dw_at, phase, weight_at, grad_at, dx_at, db_at):
        words = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        grads = cuda.local.array(WORDS, WORD)
        centred = cuda.local.array(SIZE, kind)
        values = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, mine, own_rows = find_rows(rows)
        places, sums = zero_sums(partials, mine, lane, lanes, n)
        for r in own_rows:
            length = n if r < rows else 0
            place = row_coords(r, inner)
            at = row_start(x_at, place), x_at.step, row_start(grad_at, place), grad_at.step, weight_at.step, lane, lanes
            total, squares, pulls, products = (ZERO, ZERO), (ZERO, ZERO), (ZERO, ZERO), (ZERO, ZERO)
            for start in tiles(length, lanes):
                read(x, grad, weight, at, start, length, words, grads, weights)
                total = add_tile(total, words)
            mean = mean_of(total, n, scratch)
            for start in tiles(length, lanes):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    centred[j] = value(words, j) - mean if place_in(lane, lanes, start, j) < length else ZERO
                    values[j] = value(grads, j) * value(weights, j)
                pulls = add_exactly(pulls, add_up(values, 0))
                products = add_products(products, values, centred)
                squares = add_products(squares, centred, centred)
            scale = inverse_root(squares, n, scratch)
            pull, slope = mean_of(pulls, n, scratch), mean_of(products, n, scratch) * scale
            for start in tiles(length, lanes):
                read_again(x, grad, weight, at, start, length, words, grads, weights)
                for j in range(SIZE):
                    g, u, k = value(grads, j), (value(words, j) - mean) * scale, place_in(lane, lanes, start, j)
                    values[j] = scale * (g * value(weights, j) - pull - u * slope)
                    add(partials, places, k, length, sums, j, (g * u, g))
                store(dx, row_start(dx_at, place), dx_at.step, lane, lanes, start, length, values)
        store_sums(partials, places, lane, lanes, n, sums)

    return Source(backward, (*[dtype] * 4, str(kind)), tiling.threads, inputs=4)


@register("numba", "layer_norm_backward", "rows")
@plan_once()
def rows(v: RowView, eps: float) -> BindView:
    """Blocks stride over rows, in registers if they fit, and keep partial sums. Two more launches add these up."""
    return bind_with_partials(partial(backward_kernel, eps=eps), v, sums=2)
