from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import exponential
from kernelzoo.kernels.numba.launch import BindView, Source, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import block_reduce, row_accessors, row_offsets, thread_mapping
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, type_and_constants
from kernelzoo.kernels.numba.softmax.exact import sum_functions, view_for_exact_sums
from kernelzoo.kernels.numba.tiling import RowView, Tiling, short_row_tiling
from kernelzoo.registry import register


@make_once
def multi_row_tile_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block processes ``rows * stack`` consecutive rows, in ``rows`` groups of lanes. Each group keeps ``stack`` rows
    in registers, and reads all of them before it reduces the first. Shared memory is not used."""
    kind, _, ONE, LOWEST = type_and_constants(dtype)
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    load_row, store_row = row_accessors(dtype, tiling, LOWEST)
    row_max, _, row_sum = block_reduce(tiling, LOWEST)
    finite, thread_max, thread_sum, normalize, _ = softmax_functions(dtype, tiling.vec, WORDS, tiling.exact)
    _, larger, term, total = sum_functions(dtype, tiling.exact)
    mapping, ROWS, STACK = thread_mapping(tiling), tiling.rows, tiling.stack
    HELD = WORDS * STACK

    def multi_row_tile(x, out, rows, inner, n, x_at, out_at, phase):
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(1, kind)
        lane, lanes, group = mapping()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = row_offsets(r, inner, x_at, out_at)
            edges[level] = load_row(x, source, x_at.step, phase + source, lane, lanes, length, held, level * WORDS)

        for level in range(STACK):
            top = row_max(larger(thread_max(held, level * WORDS), edges[level]), scratch)
            m = finite(top)
            edge = exponential(edges[level] - m)
            scale = ONE / total(row_sum(term(edge) + thread_sum(held, level * WORDS, m), scratch), top)
            normalize(held, level * WORDS, m, scale)

            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = row_offsets(r, inner, x_at, out_at)
            start, k = phase + source, level * WORDS
            store_row(out, target, out_at.step, start, lane, lanes, length, held, k, edge * scale)

    return Source(multi_row_tile, (dtype, dtype), tiling.threads)


@register("numba", "softmax", "multi_row_tile")
@plan_once()
def multi_row_tile(v: RowView) -> BindView:
    """A warp, or the part of one that the row fills, processes each short row. A thread processes several rows."""
    v = view_for_exact_sums(v)
    return bind_over_rows("numba/softmax/multi_row_tile", multi_row_tile_kernel, short_row_tiling(v), v, spread=True)
