import math

from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.logsumexp.state import merge_function, row_state_function
from kernelzoo.kernels.numba.parts import MERGE_TILING, bind_parts_and_merge, cut_rows, part_finder
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@make_once
def parts_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, state, find_part = WIDE[dtype], row_state_function(dtype, tiling), part_finder(tiling)
    (_, store), SCRATCH = machine.element_accessors(str(kind)), tiling.scratch

    def logsumexp_parts(x, states, out, rows, inner, n, x_at, out_at, phase, parts, span):
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, part, start, end = find_part(rows, n, parts, span)
        source, _ = row_offsets(r, inner, x_at, out_at)
        top, total = state(x, source, x_at.step, lane, lanes, start, end, maxima, sums)
        if lane == 0 and r < rows:
            store(states, 2 * (r * parts + part), top)
            store(states, 2 * (r * parts + part) + 1, total)

    return Source(logsumexp_parts, (dtype, str(kind), out_dtype), tiling.threads)


@make_once
def together_kernel(dtype: str, out_dtype: str) -> Source:
    merge, find_row, (_, store) = merge_function(dtype), row_finder(MERGE_TILING), machine.element_accessors(out_dtype)

    def logsumexp_together(x, states, out, rows, inner, n, x_at, out_at, phase, parts, span):
        lane, _, r, length = find_row(rows, parts)
        _, target = row_offsets(r, inner, x_at, out_at)
        top, total = merge(states, r * parts, length, lane)
        if lane == 0 and r < rows:
            store(out, target, top + math.log(total))  # log(0) is -inf here; in Python it is an error

    return Source(logsumexp_together, (dtype, str(WIDE[dtype]), out_dtype), MERGE_TILING.threads)


@register("numba", "logsumexp", "split")
@plan_once()
def split(v: RowView) -> BindView:
    """Several blocks share a row, and store the (max, sum) state of each part. A second launch merges these."""
    parts = cut_rows(v)
    first, second = parts_kernel(v.dtype, parts.tiling, v.out_dtype), together_kernel(v.dtype, v.out_dtype)
    return bind_parts_and_merge("numba/logsumexp/split", parts, first, second, v, values_per_part=2)
