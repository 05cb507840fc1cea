from numba import cuda

from kernelzoo.kernels.numba.device_functions import exponential, maximum
from kernelzoo.kernels.numba.lanes import add_exactly, add_rounding_errors
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_finder, row_offsets, tile_accessors
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, type_and_constants
from kernelzoo.kernels.numba.tiling import RowView, Tiling, streaming_tiling
from kernelzoo.registry import register


@make_once
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, ZERO, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    bounds, load_tile, store_tile, load_edge, store_edge = tile_accessors(dtype, tiling, LOWEST)
    block_max, _, block_sum = block_reduce(tiling, LOWEST)
    finite, thread_max, thread_sum, normalize, _ = softmax_functions(dtype, tiling.vec, WORDS)
    find_row, SCRATCH = row_finder(tiling), tiling.scratch

    def online(x, out, rows, inner, n, x_at, out_at, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, n = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        head, end = bounds(phase + source, n)
        edge = load_edge(x, source, lane, head, end, n)
        m = maximum(edge, LOWEST)
        total = (exponential(edge - finite(m)), ZERO)
        first = head
        while first < end:
            load_tile(x, source, x_at.step, lane, lanes, first, end, row, 0)
            more = maximum(m, thread_max(row, 0))
            scale = exponential(m - finite(more))
            total = add_exactly((total[0] * scale, total[1] * scale), thread_sum(row, 0, finite(more)))
            m = more
            first += lanes * SIZE

        shift = finite(block_max(m, maxima))
        scale = ONE / block_sum(add_rounding_errors(total) * exponential(m - shift), sums)

        # Backwards: what was read last is the likeliest to be still in cache.
        while first > head:
            first -= lanes * SIZE
            load_tile(x, source, x_at.step, lane, lanes, first, end, row, 0)
            thread_sum(row, 0, shift)
            normalize(row, 0, shift, scale)
            store_tile(out, target, out_at.step, lane, lanes, first, end, row, 0)
        store_edge(out, target, lane, head, end, n, exponential(edge - shift) * scale)

    return Source(online, (dtype, dtype), tiling.threads)


def online_tiling(v: RowView) -> Tiling:
    """Return a tiling of four vectors per thread, or 4 elements in float64, whose exponential needs registers."""
    return streaming_tiling(v, 4, 2) if v.itemsize > 4 else streaming_tiling(v, 16, 4)


@register("numba", "softmax", "online")
@plan_once()
def online(v: RowView) -> BindView:
    """One block processes a row of any length. One pass keeps a running (max, sum) state. A second pass writes."""
    return bind_over_rows("numba/softmax/online", online_kernel, online_tiling(v), v)
