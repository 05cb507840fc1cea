"""Several blocks to a row that merge by atomic minima: what their two forms have in common.

The results are filled with the identity first. The narrow dtypes, which have no atomics, are lowered in a 32-bit
workspace, and converted at the end.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from numba import cuda

from kernelzoo.kernels.numba.dtypes import computed_in, highest
from kernelzoo.kernels.numba.launch import BindView, prepare, within_grid
from kernelzoo.kernels.numba.min.row_tiles import deep, thread_reduce
from kernelzoo.kernels.numba.row import access, block_reduce, thread_mapping
from kernelzoo.kernels.numba.tiling import Tiling, View, across_tiling
from kernelzoo.launch import Launch, keeping_alive
from kernelzoo.layout import cdiv
from kernelzoo.tables import knob, numbers


@numbers
class Numbers:
    atomic_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="of 256 threads for each SM, that meet by atomics")


@cache
def slab_functions(dtype: str, tiling: Tiling) -> tuple[Any, Any, int, int]:
    """``mapping`` (see ``thread_mapping``), ``chunk_min``, rows side by side, and elements of ``scratch``.

    ``chunk_min(...)`` is the minimum of the ``span`` elements of a row that are part ``chunk`` of it, by all of its
    lanes; the edges are the first part's. ``scratch`` is that of ``block_reduce``.
    """
    HIGHEST = highest(dtype)
    bounds, load_tile, _, load_edge, _ = access(dtype, tiling, HIGHEST)
    _, block_min, _ = block_reduce(tiling, HIGHEST)
    thread_min = thread_reduce(dtype, tiling)
    WORD, WORDS, SIZE = tiling.word(dtype), tiling.words(dtype), tiling.size

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


def by_atomics(id: str, kernel: Any, slab_limit: int, v: View, numbers: Numbers) -> BindView:
    """Fill, reduce, and for the narrow dtypes convert from a 32-bit workspace; slabs of up to so many rows."""
    # Eight rows side by side, a warp each, or a warp of rows across; as many vectors a thread as rows_tiling has.
    tiling = across_tiling(v, 256, 8) if v.across else Tiling(32, 8, deep(v.dtype, v.vec), v.vec, v.edges)
    tile = tiling.lanes * tiling.size
    tiles = cdiv(v.n, tile)
    # As many blocks of 256 threads for every SM: full, and no ragged last wave worth the name. First from the reduced
    # axis, as many tiles a program as that leaves; the rest from the rows.
    wanted = numbers.atomic_blocks * v.device.multiprocessors
    groups = cdiv(v.total, tiling.rows)
    chunks = min(tiles, max(1, wanted // min(groups, wanted), v.device.multiprocessors))
    span = cdiv(tiles, chunks) * tile
    chunks = cdiv(v.n, span)
    slab = min(cdiv(groups * chunks, wanted), slab_limit // tiling.rows) * tiling.rows
    grid = within_grid(id, chunks * cdiv(v.total, slab))

    wide, nothing = v.itemsize >= 4, highest(v.dtype).item()
    outer, inner = (v.out_outer, v.out_inner) if wide else (v.inner, 1)  # of the workspace, which has no gaps
    offsets = replace(v, out_outer=outer, out_inner=inner).offsets
    reduce = prepare(kernel(v.dtype, tiling), v.device).call(grid, *offsets, chunks, span, slab)

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        results = out if wide else torch.empty(out.shape, dtype=computed_in(v.dtype), device=out.device)
        lower = reduce(x, results)

        def launch() -> None:
            results.fill_(nothing)
            lower()
            if not wide:
                out.copy_(results)

        return launch if wide else keeping_alive(launch, results)

    return bind
