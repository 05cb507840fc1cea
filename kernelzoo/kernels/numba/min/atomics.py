"""Several blocks per row, which combine their minima by atomics: the code that both atomic forms share.

The results are first filled with the identity. Dtypes below 32 bits have no atomics. Their minima go to a 32-bit
workspace, and are converted at the end.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from numba import cuda

from kernelzoo.kernels.numba.dtypes import highest, torch_acc_dtype
from kernelzoo.kernels.numba.launch import BindView, check_grid, prepare_kernel
from kernelzoo.kernels.numba.min.row_tiles import thread_min_function, vectors_in_flight
from kernelzoo.kernels.numba.row import block_reduce, thread_mapping, tile_accessors
from kernelzoo.kernels.numba.tiling import RowView, Tiling, strided_tiling
from kernelzoo.launch import Launch, keeping_alive
from kernelzoo.layout import cdiv
from kernelzoo.tables import form_knobs, knob


@form_knobs
class Knobs:
    atomic_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="of 256 threads for each SM, that meet by atomics")


@cache
def chunk_min_function(dtype: str, tiling: Tiling) -> tuple[Any, Any, int, int]:
    """Return ``mapping`` (see ``thread_mapping``), ``chunk_min``, rows per tile, and elements of ``scratch``.

    ``chunk_min(...)`` returns the minimum of a row's part ``chunk``, of ``span`` elements, to all of the row's lanes.
    Part 0 includes the elements outside aligned vectors. ``scratch``: see ``block_reduce``."""
    HIGHEST = highest(dtype)
    bounds, load_tile, _, load_edge, _ = tile_accessors(dtype, tiling, HIGHEST)
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    thread_min = thread_min_function(dtype, tiling)
    WORD, WORDS, SIZE = tiling.register_type(dtype), tiling.registers(dtype), tiling.read_size

    @cuda.jit(device=True, inline="always")
    def chunk_min(x, source, x_step, lane, lanes, length, phase, chunk, span, scratch):
        tile = cuda.local.array(WORDS, WORD)
        head, end = bounds(phase + source, length)
        smallest = HIGHEST
        if chunk == 0:
            smallest = load_edge(x, source, lane, head, end, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            load_tile(x, source, x_step, lane, lanes, first, last, tile, 0)
            smallest = thread_min(tile, 0, smallest)
            first += lanes * SIZE
        return block_min(smallest, scratch)

    return thread_mapping(tiling), chunk_min, tiling.rows, tiling.scratch


def bind_atomic_min(id: str, kernel: Any, max_block_rows: int, v: RowView, knobs: Knobs) -> BindView:
    """Return a function of tensors that returns a launch. ``max_block_rows``: the most rows that a block reduces."""
    # Eight rows, a warp each, or a warp of strided rows, with as many vectors per thread as in rows_tiling.
    deep = vectors_in_flight(v.dtype, v.vec)
    tiling = strided_tiling(v, 256, 8) if v.is_strided else Tiling(32, 8, deep, v.vec, v.edges)
    tile = tiling.lanes * tiling.read_size
    tiles = cdiv(v.n, tile)
    # All SMs get equally many blocks of 256 threads, so that the last wave is full. The reduced axis is cut first, into
    # parts of complete tiles, and then the rows.
    wanted = knobs.atomic_blocks * v.device.multiprocessors
    groups = cdiv(v.total, tiling.rows)
    chunks = min(tiles, max(1, wanted // min(groups, wanted), v.device.multiprocessors))
    span = cdiv(tiles, chunks) * tile
    chunks = cdiv(v.n, span)
    slab = min(cdiv(groups * chunks, wanted), max_block_rows // tiling.rows) * tiling.rows
    grid = check_grid(id, chunks * cdiv(v.total, slab))

    wide, nothing = v.itemsize >= 4, highest(v.dtype).item()
    outer, inner = (v.out_outer, v.out_inner) if wide else (v.inner, 1)  # of the workspace, which has no gaps
    offsets = replace(v, out_outer=outer, out_inner=inner).kernel_args
    reduce = prepare_kernel(kernel(v.dtype, tiling), v.device).bind(grid, *offsets, chunks, span, slab)

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        results = out if wide else torch.empty(out.shape, dtype=torch_acc_dtype(v.dtype), device=out.device)
        lower = reduce(x, results)

        def launch() -> None:
            results.fill_(nothing)
            lower()
            if not wide:
                out.copy_(results)

        return launch if wide else keeping_alive(launch, results)

    return bind
