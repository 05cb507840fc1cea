"""Several blocks to a row that meet by atomic minima: what their two forms have in common.

The results are filled with the identity first. The narrow dtypes, which have no atomics, are lowered in a 32-bit
workspace, and converted at the end.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, computed_in, highest
from kernelzoo.kernels.numba.launch import BindView, View, prepare, within_grid
from kernelzoo.kernels.numba.min.arithmetic import folding
from kernelzoo.kernels.numba.min.tiling import deep
from kernelzoo.kernels.numba.row import Tiling, access, begin, elements, reductions, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.launch import Launch, keeping_alive, sequence
from kernelzoo.layout import cdiv, power_of_two
from kernelzoo.tables import knob, numbers

THREADS = 256
"""A block of the kernels that have a thread per row."""


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    atomic_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="of 256 threads for each SM, that meet by atomics")


@cache
def fill_kernel(dtype: str) -> Source:
    """The identity into every result, which atomics then lower. One thread per row."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)

    def fill(results, rows, inner, outer_stride, inner_stride):
        r = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if r < rows:
            target, _ = begin(r, inner, outer_stride, inner_stride, outer_stride, inner_stride)
            results[target] = HIGHEST

    return Source(fill, (kind,), THREADS, (dtype,))


@cache
def narrow_kernel(dtype: str) -> Source:
    """From the 32-bit numbers that atomics work on to an output of a narrower dtype. One thread per row."""
    _, store = elements(dtype)

    def narrow(results, out, rows, inner, out_outer, out_inner):
        r = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if r < rows:
            target, _ = begin(r, inner, out_outer, out_inner, out_outer, out_inner)
            store(out, target, results[r])

    return Source(narrow, (WIDE[dtype], dtype), THREADS, (dtype,))


@cache
def part_minimum_of(dtype: str, tiling: Tiling) -> Any:
    """``part_minimum(...)``: of the ``span`` elements of a row that are part ``chunk`` of it, by all of its lanes; the
    edges are the first part's. ``scratch`` is that of ``reductions``."""
    HIGHEST = highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of = folding(dtype, tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size

    @cuda.jit(device=True, inline="always")
    def part_minimum(x, source, x_step, lane, lanes, length, phase, chunk, span, scratch):
        tile = cuda.local.array(WORDS, WORD)
        head, end = bounds(phase + source, length)
        smallest = HIGHEST
        if chunk == 0:
            smallest = read_edge(x, source, lane, head, end, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, lanes, first, last, tile, 0)
            smallest = smallest_of(tile, 0, smallest)
            first += lanes * SIZE
        return reduce_min(smallest, scratch)

    return part_minimum


def slab_tiling(v: View) -> Tiling:
    """Eight rows side by side, a warp each, or a warp of rows across; as many vectors a thread as rows_tiling has."""
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(256 // rows, rows, 8, 1, across=True)
    return Tiling(32, 8, deep(v.dtype, v.vec), v.vec, v.edges)


def by_atomics(id: str, kernel: Any, slab_limit: int, v: View, device: Device, numbers: Numbers) -> BindView:
    """Fill, reduce, and for the narrow dtypes convert from a 32-bit workspace; slabs of up to so many rows."""
    tiling = slab_tiling(v)
    tile = tiling.lanes * tiling.size
    tiles = cdiv(v.n, tile)
    # As many blocks of 256 threads for every SM: full, and no ragged last wave worth the name. First from the reduced
    # axis, as many tiles a program as that leaves; the rest from the rows.
    wanted = numbers.atomic_blocks * device.multiprocessors
    groups = cdiv(v.total, tiling.rows)
    chunks = min(tiles, max(1, wanted // min(groups, wanted), device.multiprocessors))
    span = cdiv(tiles, chunks) * tile
    chunks = cdiv(v.n, span)
    slab = min(cdiv(groups * chunks, wanted), slab_limit // tiling.rows) * tiling.rows
    grid = within_grid(id, chunks * cdiv(v.total, slab))

    narrow_dtype = v.itemsize < 4
    outer, inner = v.out_outer, v.out_inner
    if narrow_dtype:
        outer, inner = v.inner, 1  # the workspace is contiguous
    seen = replace(v, out_outer=outer, out_inner=inner)
    row_blocks = within_grid(id, cdiv(v.total, THREADS))
    fill = prepare(fill_kernel(v.dtype), device).call(row_blocks, v.total, v.inner, outer, inner)
    reduce = prepare(kernel(v.dtype, tiling), device).call(grid, *seen.offsets, chunks, span, slab)
    if not narrow_dtype:
        return lambda x, out: sequence(fill(out), reduce(x, out))

    narrow = prepare(narrow_kernel(v.dtype), device).call(row_blocks, v.total, v.inner, v.out_outer, v.out_inner)

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        results = torch.empty(v.total, dtype=computed_in(v.dtype), device=x.device)
        return keeping_alive(sequence(fill(results), reduce(x, results), narrow(results, out)), results)

    return bind
