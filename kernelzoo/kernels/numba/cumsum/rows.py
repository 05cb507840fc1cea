from functools import cache, partial
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import lane_access, lane_scan_function, scan_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@cache
def row_cumsum_function(dtype: str, tiling: Tiling, out_dtype: str) -> Any:
    """Return ``scan_row(x, out, source, target, x_step, out_step, lane, lanes, r, start, end, n, before, sums)``. It
    writes the running sums of a row's elements [start, n), plus ``before``. ``end`` must be the same in all threads of
    a block, at least as large as n. ``sums`` is shared memory of twice ``tiling.scratch`` elements."""
    kind, (load, value, _), (_, _, store) = WIDE[out_dtype], lane_access(dtype, tiling), lane_access(out_dtype, tiling)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    scan, SCRATCH = lane_scan_function(out_dtype, tiling), tiling.scratch

    @cuda.jit(device=True, inline="always")
    def scan_row(x, out, source, target, x_step, out_step, lane, lanes, r, start, end, n, before, sums):
        words = cuda.local.array(WORDS, WORD)
        values = cuda.local.array(SIZE, kind)
        load(x, source, x_step, lane, lanes, start, n, words)
        half = SCRATCH
        for first in range(start, end, lanes * SIZE):
            values[0] = value(words, 0)
            for j in range(1, SIZE):
                values[j] = values[j - 1] + kind(value(words, j))
            load(x, source, x_step, lane, lanes, first + lanes * SIZE, n, words)  # the next tile, before the barrier
            earlier, total = scan(lane, r, values[SIZE - 1], sums, half)
            half = SCRATCH - half  # halves alternate, so that a tile needs only one barrier
            earlier += before
            for j in range(SIZE):
                values[j] += earlier
            store(out, target, out_step, lane, lanes, first, n, values)
            before += total

    return scan_row


@make_once
def cumsum_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, ZERO, SCRATCH = WIDE[out_dtype], constant(out_dtype, 0), 2 * tiling.scratch
    scan_row, find_row = row_cumsum_function(dtype, tiling, out_dtype), row_finder(tiling)

    def cumsum(x, out, rows, inner, n, x_at, out_at, phase):
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        scan_row(x, out, source, target, x_at.step, out_at.step, lane, lanes, r, 0, n, length, ZERO, sums)

    return Source(cumsum, (dtype, out_dtype), tiling.threads, tiling.blocks)


@register("numba", "cumsum", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """The order of additions is fixed: a lane's elements in order, lanes in a tree, then warps and tiles in order."""
    kernel = partial(cumsum_kernel, out_dtype=v.out_dtype)
    return bind_over_rows("numba/cumsum/rows", kernel, scan_tiling(v), v)
