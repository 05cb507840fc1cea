from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.parts import MERGE_TILING, bind_parts_and_merge, cut_rows, part_finder
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.kernels.numba.sum.rows import row_sum_function
from kernelzoo.registry import register


@make_once
def parts_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, add_row, find_part = WIDE[out_dtype], row_sum_function(dtype, tiling, out_dtype), part_finder(tiling)
    (_, store), SCRATCH = machine.element_accessors(str(kind)), tiling.scratch

    def sum_parts(x, sums, out, rows, inner, n, x_at, out_at, phase, parts, span):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, part, start, end = find_part(rows, n, parts, span)
        source, _ = row_offsets(r, inner, x_at, out_at)
        total = add_row(x, source, x_at.step, lane, lanes, start, end, scratch)
        if lane == 0 and r < rows:
            store(sums, r * parts + part, total)

    return Source(sum_parts, (dtype, str(kind), out_dtype), tiling.threads)


@make_once
def together_kernel(dtype: str, out_dtype: str) -> Source:
    kind, find_row, SCRATCH = WIDE[out_dtype], row_finder(MERGE_TILING), MERGE_TILING.scratch
    add_row, (_, store) = row_sum_function(str(kind), MERGE_TILING, out_dtype), machine.element_accessors(out_dtype)

    def sum_together(x, sums, out, rows, inner, n, x_at, out_at, phase, parts, span):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, parts)
        _, target = row_offsets(r, inner, x_at, out_at)
        total = add_row(sums, r * parts, 1, lane, lanes, 0, length, scratch)
        if lane == 0 and r < rows:
            store(out, target, total)

    return Source(sum_together, (dtype, str(kind), out_dtype), MERGE_TILING.threads)


@register("numba", "sum", "split")
@plan_once()
def split(v: RowView) -> BindView:
    """Several blocks share a row, and store the sum of each part. A second launch adds these up."""
    parts = cut_rows(v)
    first, second = parts_kernel(v.dtype, parts.tiling, v.out_dtype), together_kernel(v.dtype, v.out_dtype)
    return bind_parts_and_merge("numba/sum/split", parts, first, second, v)
