import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import constant
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.min_backward.arithmetic import gradient_functions, gradient_split_function
from kernelzoo.kernels.numba.row import block_reduce, row_coords, row_finder, row_start, tile_accessors
from kernelzoo.kernels.numba.tiling import RowView, Tiling, streaming_tiling
from kernelzoo.registry import register


@make_once
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    NAN, SIZE = constant(dtype, np.nan), tiling.read_size
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, NAN)
    load, _ = machine.element_accessors(dtype)
    _, _, block_sum = block_reduce(tiling, np.int64(0))
    count_matches, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)
    split_gradient, find_row, SCRATCH = gradient_split_function(dtype), row_finder(tiling), tiling.scratch

    def online(x, y, grad, out, rows, inner, n, x_at, out_at, phase, y_at, grad_at):
        row = cuda.local.array(WORDS, WORD)
        counts = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, r, n = find_row(rows, n)
        least, slope = NAN, NAN
        place = row_coords(r, inner)
        if r < rows:
            least = load(y, row_start(y_at, place))
            slope = load(grad, row_start(grad_at, place))
        source, target = row_start(x_at, place), row_start(out_at, place)
        head, end = bounds(phase + source, n)
        edge = load_edge(x, source, lane, head, end, n)
        count = types.int64(edge == least)
        first = head
        while first < end:
            load_tile(x, source, x_at.step, lane, lanes, first, end, row, 0)
            count += count_matches(row, 0, least)
            first += lanes * SIZE

        share, rest = split_gradient(slope, block_sum(count, counts))

        # Backwards: what was read last is the likeliest to be still in cache.
        while first > head:
            first -= lanes * SIZE
            load_tile(x, source, x_at.step, lane, lanes, first, end, row, 0)
            compute_gradient(row, 0, least, share, rest)
            store_tile(out, target, out_at.step, lane, lanes, first, end, row, 0)
        store_edge(out, target, lane, head, end, n, share if edge == least else rest)

    return Source(online, (dtype, dtype, dtype, dtype), tiling.threads, inputs=3)


def online_tiling(v: RowView) -> Tiling:
    """Return a tiling of four vectors per thread."""
    return streaming_tiling(v, 16 if v.itemsize <= 4 else 8, 4)


@register("numba", "min_backward", "online")
@plan_once()
def online(v: RowView) -> BindView:
    """One block processes a row of any length. One pass counts the row's minima, and a second pass writes."""
    return bind_over_rows("numba/min_backward/online", online_kernel, online_tiling(v), v)
