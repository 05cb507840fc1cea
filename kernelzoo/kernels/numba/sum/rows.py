from functools import cache, partial
from typing import Any

from numba import cuda

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE, constant
from kernelzoo.kernels.numba.lanes import lane_access, lane_adder, tile_sum_adders, vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.row import row_finder, row_offsets
from kernelzoo.registry import register


@cache
def row_sum_function(dtype: str, tiling: Tiling, out_dtype: str) -> Any:
    """Return ``add_row(x, source, step, lane, lanes, start, n, scratch)``: the sum of a row's elements [start, n)."""
    ZERO, SIZE = constant(out_dtype, 0), tiling.read_size
    WORD, WORDS = tiling.register_type(dtype), tiling.registers(dtype)
    (load, _, _), (add_tile, _) = lane_access(dtype, tiling), tile_sum_adders(dtype, tiling, out_dtype)
    sum_over_lanes = lane_adder(out_dtype, tiling)

    @cuda.jit(device=True, inline="always")
    def add_row(x, source, step, lane, lanes, start, n, scratch):
        words = cuda.local.array(WORDS, WORD)
        total = (ZERO, ZERO)
        for first in range(start, n, lanes * SIZE):
            load(x, source, step, lane, lanes, first, n, words)
            total = add_tile(total, words)
        return sum_over_lanes(total, scratch)

    return add_row


@make_once
def sum_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, (_, store) = WIDE[out_dtype], machine.element_accessors(out_dtype)
    add_row, find_row = row_sum_function(dtype, tiling, out_dtype), row_finder(tiling)
    SCRATCH = tiling.scratch

    def sum_rows(x, out, rows, inner, n, x_at, out_at, phase):
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        total = add_row(x, source, x_at.step, lane, lanes, 0, length, scratch)
        if lane == 0 and r < rows:
            store(out, target, total)

    return Source(sum_rows, (dtype, out_dtype), tiling.threads)


@register("numba", "sum", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """Each lane adds a tile's elements in a tree, and compensates rounding between tiles. A tree adds the lanes."""
    return bind_over_rows("numba/sum/rows", partial(sum_kernel, out_dtype=v.out_dtype), vector_tiling(v), v)
