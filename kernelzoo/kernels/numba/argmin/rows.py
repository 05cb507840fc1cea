from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.lanes import element_indexer, lane_access, vector_tiling
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.min.row_tiles import thread_min_function
from kernelzoo.kernels.numba.row import block_reduce, row_finder, row_offsets, tile_accessors
from kernelzoo.registry import register


@cuda.jit(device=True, inline="always")
def equal_or_both_nan(a, b):
    """Whether two elements are equal, or both NaN."""
    return a == b or (a != a and b != b)


@cache
def row_argmin_function(dtype: str, tiling: Tiling) -> Any:
    """Return ``first_least(x, source, step, lane, lanes, start, n, values, places)``: the index of the least element of
    a row's [start, n). The row begins at ``source``. ``values`` and ``places``: shared memory for reductions."""
    HIGHEST, NOWHERE = highest(dtype), highest("int64")
    (_, value, _), (_, load_tile, _, _, _) = lane_access(dtype, tiling), tile_accessors(dtype, tiling, HIGHEST)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    _, block_first, _ = block_reduce(tiling, NOWHERE)
    thread_min, place_in = thread_min_function(dtype, tiling), element_indexer(tiling)

    @cuda.jit(device=True, inline="always")
    def first_least(x, source, step, lane, lanes, start, n, values, places):
        words = cuda.local.array(WORDS, WORD)
        least, tile, place = HIGHEST, types.int64(start), NOWHERE
        for first in range(start, n, lanes * SIZE):
            load_tile(x, source, step, lane, lanes, first, n, words, 0)
            v = thread_min(words, 0, HIGHEST)
            if v < least or (v != v and least == least):  # the first tile that has it
                least, tile = v, first
        lowest = block_min(least, values)
        if equal_or_both_nan(least, lowest):
            load_tile(x, source, step, lane, lanes, tile, n, words, 0)
            for j in range(SIZE - 1, -1, -1):  # backwards, so that the first wins; elements past the end come later
                if equal_or_both_nan(value(words, j), lowest):
                    place = place_in(lane, lanes, tile, j)
        return block_first(place, places)

    return first_least


@make_once
def argmin_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, (_, store) = WIDE[dtype], machine.element_accessors("int64")
    first_least, find_row = row_argmin_function(dtype, tiling), row_finder(tiling)
    SCRATCH = tiling.scratch

    def argmin(x, out, rows, inner, n, x_at, out_at, phase):
        values = cuda.shared.array(SCRATCH, kind)
        places = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        place = first_least(x, source, x_at.step, lane, lanes, 0, length, values, places)
        if lane == 0 and r < rows:
            store(out, target, place)

    return Source(argmin, (dtype, "int64"), tiling.threads)


@register("numba", "argmin", "rows")
@plan_once()
def rows(v: RowView) -> BindView:
    """Each lane records its least element and that element's tile. At the end, lanes search this tile for the index."""
    return bind_over_rows("numba/argmin/rows", argmin_kernel, vector_tiling(v), v)
