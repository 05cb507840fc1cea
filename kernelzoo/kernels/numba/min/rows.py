from dataclasses import replace

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import minimum
from kernelzoo.kernels.numba.dtypes import WIDE, highest
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, bind_over_rows, make_once, plan_once
from kernelzoo.kernels.numba.min.row_tiles import Knobs, rows_tiling, thread_min_function
from kernelzoo.kernels.numba.row import block_reduce, row_finder, row_offsets, tile_accessors
from kernelzoo.registry import register


@make_once
def rows_kernel(dtype: str, tiling: Tiling) -> Source:
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, load_tile, _, load_edge, _ = tile_accessors(dtype, tiling, HIGHEST)
    _, store = machine.element_accessors(dtype)
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    thread_min, find_row = thread_min_function(dtype, tiling), row_finder(tiling)
    WORD, WORDS, SIZE, SCRATCH = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size, tiling.scratch

    def by_tiles(x, out, rows, inner, n, x_at, out_at, phase):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, r, length = find_row(rows, n)
        source, target = row_offsets(r, inner, x_at, out_at)
        head, end = bounds(phase + source, length)
        smallest = block_min(load_edge(x, source, lane, head, end, length), scratch)
        first = types.int64(0)
        while first < n:  # as often in all threads of the block, because all take part in reductions
            load_tile(x, source, x_at.step, lane, lanes, head + first, end, tile, 0)
            value = thread_min(tile, 0, HIGHEST)
            cuda.syncthreads()  # until the last reduction's scratch has been read
            smallest = minimum(smallest, block_min(value, scratch))
            first += lanes * SIZE
        if lane == 0 and r < rows:
            store(out, target, smallest)

    return Source(by_tiles, (dtype, dtype), tiling.threads)


@register("numba", "min", "rows")
@plan_once(Knobs)
def rows(v: RowView, knobs: Knobs) -> BindView:
    """A group of threads reduces each row. Each tile is reduced to a scalar before it is merged: the simple form."""
    tiling = replace(rows_tiling(v, knobs), stack=1)
    return bind_over_rows("numba/min/rows", rows_kernel, tiling, v)
