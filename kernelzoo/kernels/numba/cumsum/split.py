from dataclasses import replace

from numba import cuda

from kernelzoo.kernels.numba.cumsum.rows import row_cumsum_function
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.lanes import scan_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.parts import bind_parts_and_merge, cut_rows, part_finder
from kernelzoo.kernels.numba.row import row_offsets
from kernelzoo.kernels.numba.sum.rows import row_sum_function
from kernelzoo.kernels.numba.sum.split import parts_kernel
from kernelzoo.registry import register


@make_once
def scan_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, scan_row, find_part = WIDE[out_dtype], row_cumsum_function(dtype, tiling, out_dtype), part_finder(tiling)
    add_row, SCRATCH = row_sum_function(str(kind), replace(tiling, vec=1), out_dtype), 2 * tiling.scratch

    def scan_parts(x, sums, out, rows, inner, n, x_at, out_at, phase, parts, span):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, part, start, end = find_part(rows, n, parts, span)
        source, target = row_offsets(r, inner, x_at, out_at)
        before = add_row(sums, r * parts, 1, lane, lanes, 0, part if r < rows else 0, scratch)
        last = min(start + span, n)
        scan_row(x, out, source, target, x_at.step, out_at.step, lane, lanes, r, start, last, end, before, scratch)

    return Source(scan_parts, (dtype, str(kind), out_dtype), tiling.threads, tiling.blocks)


@register("numba", "cumsum", "split")
@plan_once()
def split(v: RowView) -> BindView:
    """Several blocks share a row, and store sums. In a second launch, each block adds up earlier sums, and scans."""
    parts = cut_rows(v, scan_tiling)
    first, second = (kernel(v.dtype, parts.tiling, v.out_dtype) for kernel in (parts_kernel, scan_kernel))
    return bind_parts_and_merge("numba/cumsum/split", parts, first, second, v, one_grid=True)
