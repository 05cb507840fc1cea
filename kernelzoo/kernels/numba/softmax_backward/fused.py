from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import WARP
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_accessors, row_coords, row_start, thread_mapping
from kernelzoo.kernels.numba.softmax_backward.arithmetic import gradient_functions
from kernelzoo.kernels.numba.tiling import RowView, Tiling, short_row_tiling, whole_row_tiling
from kernelzoo.registry import register


@make_once
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """Process rows as softmax's multi_row_tile does, but with up to a block per row."""
    kind, ZERO = WIDE[dtype], constant(dtype, 0)
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    load_row, store_row = row_accessors(dtype, tiling, ZERO)
    _, _, block_sum = block_reduce(tiling, ZERO)
    sum_products, compute_gradient = gradient_functions(dtype, tiling.vec, WORDS)
    mapping, ROWS, STACK, SCRATCH = thread_mapping(tiling), tiling.rows, tiling.stack, tiling.scratch
    HELD = WORDS * STACK

    def fused(grad, y, out, rows, inner, n, x_at, out_at, phase, y_at):
        grads = cuda.local.array(HELD, WORD)
        weights = cuda.local.array(HELD, WORD)
        grad_edges = cuda.local.array(STACK, kind)
        weight_edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = mapping()
        r0 = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r, k = r0 + level * ROWS, level * WORDS
            length = n if r < rows else types.int64(0)  # threads without a row stay: reductions need whole warps
            place = row_coords(r, inner)
            source, other = row_start(x_at, place), row_start(y_at, place)
            start = phase + source
            grad_edges[level] = load_row(grad, source, x_at.step, start, lane, lanes, length, grads, k)
            weight_edges[level] = load_row(y, other, y_at.step, start, lane, lanes, length, weights, k)

        for level in range(STACK):
            edge, weight, k = grad_edges[level], weight_edges[level], level * WORDS
            total = block_sum(sum_products(grads, weights, k) + edge * weight, scratch)
            compute_gradient(grads, weights, k, total)

            if STACK > 1:  # with only one row, these are still known
                r = r0 + level * ROWS
                length = n if r < rows else types.int64(0)
                place = row_coords(r, inner)
                start = phase + row_start(x_at, place)
            target = row_start(out_at, place)
            store_row(out, target, out_at.step, start, lane, lanes, length, grads, k, weight * (edge - total))

    return Source(fused, (dtype, dtype, dtype), tiling.threads, inputs=2)


def fused_tiling(v: RowView) -> Tiling | None:
    """Return a tiling of up to a warp per short row, and of a block per longer row. A thread has four vectors of each
    input. It has eight if a row would otherwise need more than 256 threads, so that an SM runs at least two blocks."""
    short = short_row_tiling(v, 2) if v.is_strided or v.n // v.vec <= 4 * WARP else None
    return short or whole_row_tiling(v, (256, 2), (512, 1))


@register("numba", "softmax_backward", "fused")
@plan_once()
def fused(v: RowView) -> BindView:
    """One block processes each row. A short row has a warp or less, and a thread processes several short rows."""
    return bind_over_rows("numba/softmax_backward/fused", fused_kernel, fused_tiling(v), v, spread=True)
