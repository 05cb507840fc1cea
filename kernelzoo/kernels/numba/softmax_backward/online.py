from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import add_exactly, add_rounding_errors
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_coords, row_finder, row_start, tile_accessors
from kernelzoo.kernels.numba.softmax_backward.arithmetic import gradient_functions
from kernelzoo.kernels.numba.tiling import RowView, Tiling, streaming_tiling
from kernelzoo.registry import register


@make_once
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, ZERO = WIDE[dtype], constant(dtype, 0)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, ZERO)
    _, _, block_sum = block_reduce(tiling, ZERO)
    sum_products, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)
    find_row, SCRATCH = row_finder(tiling), tiling.scratch

    def online(grad, y, out, rows, inner, n, x_at, out_at, phase, y_at):
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, n = find_row(rows, n)
        place = row_coords(r, inner)
        source, other = row_start(x_at, place), row_start(y_at, place)
        head, end = bounds(phase + source, n)
        edge = load_edge(grad, source, lane, head, end, n)
        weight = load_edge(y, other, lane, head, end, n)
        total = (edge * weight, ZERO)
        first = head
        while first < end:
            load_tile(grad, source, x_at.step, lane, lanes, first, end, grads, 0)
            load_tile(y, other, y_at.step, lane, lanes, first, end, weights, 0)
            total = add_exactly(total, sum_products(grads, weights, 0))
            first += lanes * SIZE

        dot = block_sum(add_rounding_errors(total), sums)

        target = row_start(out_at, place)
        # Backwards: what was read last is the likeliest to be still in cache.
        while first > head:
            first -= lanes * SIZE
            load_tile(grad, source, x_at.step, lane, lanes, first, end, grads, 0)
            load_tile(y, other, y_at.step, lane, lanes, first, end, weights, 0)
            compute_gradient(grads, weights, 0, dot)
            store_tile(out, target, out_at.step, lane, lanes, first, end, grads, 0)
        store_edge(out, target, lane, head, end, n, weight * (edge - dot))

    return Source(online, (dtype, dtype, dtype), tiling.threads, inputs=2)


def online_tiling(v: RowView) -> Tiling:
    """Return a tiling of two vectors of each input per thread."""
    return streaming_tiling(v, 8 if v.itemsize <= 4 else 4, 2)


@register("numba", "softmax_backward", "online")
@plan_once()
def online(v: RowView) -> BindView:
    """One block processes a row of any length. One pass adds up the row's products, and a second pass writes."""
    return bind_over_rows("numba/softmax_backward/online", online_kernel, online_tiling(v), v)
