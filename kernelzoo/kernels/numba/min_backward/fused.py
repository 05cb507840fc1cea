import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.min_backward.arithmetic import gradient_functions, gradient_split_function
from kernelzoo.kernels.numba.row import block_reduce, row_coords, row_start, thread_mapping, tile_accessors
from kernelzoo.kernels.numba.tiling import RowView, Tiling, short_row_tiling, whole_row_tiling
from kernelzoo.registry import register


@make_once
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """Process rows as softmax's multi_row_tile does, but with up to a block per row."""
    kind, NAN = WIDE[dtype], constant(dtype, np.nan)
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, NAN, keep_in_l2=True)
    load, _ = machine.element_accessors(dtype)
    _, _, block_sum = block_reduce(tiling, np.int64(0))
    count_matches, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)
    split_gradient, mapping = gradient_split_function(dtype), thread_mapping(tiling)
    ROWS, STACK, SCRATCH, HELD = tiling.rows, tiling.stack, tiling.scratch, WORDS * tiling.stack

    def fused(x, y, grad, out, rows, inner, n, x_at, out_at, phase, y_at, grad_at):
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        minima = cuda.local.array(STACK, kind)
        slopes = cuda.local.array(STACK, kind)
        counts = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, group = mapping()
        r0 = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = r0 + level * ROWS
            length = n if r < rows else types.int64(0)  # threads without a row stay: reductions need whole warps
            place = row_coords(r, inner)
            minima[level], slopes[level] = NAN, NAN
            if r < rows:
                minima[level] = load(y, row_start(y_at, place))
                slopes[level] = load(grad, row_start(grad_at, place))
            source = row_start(x_at, place)
            head, end = bounds(phase + source, length)
            load_tile(x, source, x_at.step, lane, lanes, head, end, held, level * WORDS)
            edges[level] = load_edge(x, source, lane, head, end, length)

        for level in range(STACK):
            least, edge, k = minima[level], edges[level], level * WORDS
            count = block_sum(count_matches(held, k, least) + types.int64(edge == least), counts)
            share, rest = split_gradient(slopes[level], count)
            compute_gradient(held, k, least, share, rest)

            if STACK > 1:  # with only one row, these are still known
                r = r0 + level * ROWS
                length = n if r < rows else types.int64(0)
                place = row_coords(r, inner)
                head, end = bounds(phase + row_start(x_at, place), length)
            target = row_start(out_at, place)
            store_tile(out, target, out_at.step, lane, lanes, head, end, held, k)
            store_edge(out, target, lane, head, end, length, share if edge == least else rest)

    return Source(fused, (dtype, dtype, dtype, dtype), tiling.threads, inputs=3)


def fused_tiling(v: RowView) -> Tiling | None:
    """Return a tiling of up to a warp per short row, and of a block per longer row. A thread has four vectors. It has
    eight if a row would otherwise need more than 512 threads, so that an SM runs two blocks."""
    short = short_row_tiling(v) if v.is_strided or v.n // v.vec <= 6 * WARP else None
    return short or whole_row_tiling(v, (512, 2), (512, 1), (1024, 2))


@register("numba", "min_backward", "fused")
@plan_once()
def fused(v: RowView) -> BindView:
    """One block processes each row. A short row has a warp or less, and a thread processes several short rows."""
    return bind_over_rows("numba/min_backward/fused", fused_kernel, fused_tiling(v), v, spread=True)
