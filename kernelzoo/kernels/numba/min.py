"""The minimum in Numba CUDA: the same algorithms as in the other languages, over the threads of a block.

A NaN must win, which ``min`` and Numba's own atomics do not see to: kernels take ``minimum`` and ``atomic_min`` of
:mod:`.machine`. Half precision is compared in float32 and the narrow integers in int32, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba import columns as columns_of
from kernelzoo.kernels.numba.columns import Columns, quotient
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, highest, itemsize
from kernelzoo.kernels.numba.launch import Source, has_clusters, multiprocessors, prepare
from kernelzoo.kernels.numba.row import (
    ALIGNED,
    EVERY_LANE,
    WARP,
    Tiling,
    access,
    arrive,
    atomic_min,
    begin,
    elements,
    machine,
    minimum,
    pointer,
    reductions,
    seating,
    spread,
    word_type,
)
from kernelzoo.kernels.numba.view import VECTOR_BYTES, BindView, View, planned, power_of_two
from kernelzoo.ops import in_halves
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table
from kernelzoo.workspace import owning

GRID_LIMIT = 2**31 - 1  # blocks in a launch
OFFSETS = (types.int64,) * 10  # View.offsets


@launch_table("numba", "min")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    # An SM's share of an H200's 132 is one at most, and takes all threads that it can get.
    few_rows: int = knob(
        132, among=(16, 32, 64, 132, 264), unit="rows", why="up to which a long row has 512 threads, and not 256"
    )
    wide_vectors: int = knob(
        320, among=(160, 320, 640), unit="vectors", why="for each in flight, up to which a row has 512 threads as well"
    )
    stacked: int = knob(
        2, among=(1, 2, 4), unit="vectors", why="in flight to a thread of short rows, over its rows together"
    )
    # 32 kB a block, of which an SM holds six.
    tile_row_bytes: int = knob(
        256,
        among=(64, 128, 256),
        unit="bytes",
        why="of rows off the boundaries of vectors, read as one piece of memory",
    )
    split_rows: int = knob(64, among=(16, 32, 64, 128, 256), unit="rows", why="up to which long ones are split")
    split_blocks: int = knob(2, among=(1, 2, 4), unit="blocks", why="of a split row, on each SM")
    across_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="across rows, below which rows are split")
    atomic_blocks: int = knob(4, among=(2, 4, 8), unit="blocks", why="of 256 threads for each SM, that meet by atomics")
    cluster_least: int = knob(6, among=(6, 12, 24), unit="rows", why="from which a cluster takes a row each")
    cluster_most: int = knob(64, among=(32, 64, 128), unit="rows", why="up to which a cluster takes a row each")
    columns_percent: int = knob(
        60, among=(30, 60, 100, 200), unit="% of the SMs", why="with strips of columns, below which clusters share them"
    )
    columns_long: int = knob(
        64, among=(32, 64, 128, 512), unit="elements", why="of columns, from which vectors read them"
    )


@cache
def folding(dtype: str, tiling: Tiling) -> Any:
    """``smallest_of(row, k, value)``: the least of a value and of what a thread has read of a row, from ``row[k]`` on.

    Packed halves are compared two at a time, and widened once there is only one word of them left.
    """
    WORDS = tiling.words(dtype)

    @cuda.jit(device=True, inline="always")
    def of_words(row, k, value):
        for j in range(WORDS):
            value = minimum(value, row[k + j])
        return value

    if not machine.is_packed(dtype, tiling.vec):
        return of_words
    low, high, _, _, least = machine.word_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def of_halves(row, k, value):
        word = row[k]
        for j in range(1, WORDS):
            word = least(word, row[k + j])
        return minimum(value, minimum(low(word), high(word)))

    return of_halves


# ---------------------------------------------------------------------------------------------------------------------
# rows and rows_deferred: parallel over rows


@cache
def rows_kernel(dtype: str, tiling: Tiling) -> Source:
    """Every tile of a row is reduced over its lanes to one value before it is combined with what came before."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of, seat = folding(dtype, tiling), seating(tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def by_tiles(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        smallest = reduce_min(read_edge(x, source, lane, head, end, length), scratch)
        first = types.int64(0)
        while first < n:  # as many times in every thread of the block, since all of them reduce
            read(x, source, x_step, lane, lanes, head + first, end, tile, 0)
            value = smallest_of(tile, 0, HIGHEST)
            cuda.syncthreads()  # what the last reduction left has been read
            smallest = minimum(smallest, reduce_min(value, scratch))
            first += lanes * SIZE
        if lane == 0 and r < rows:
            store(out, target, smallest)

    return Source(by_tiles, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling))


@cache
def rows_deferred_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the minimum of its share, for ``stack`` rows at once; lanes meet once, after the loop."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST, before=True)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of, seat = folding(dtype, tiling), seating(tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    ROWS, SCRATCH = tiling.rows, tiling.scratch
    STACK, ONCE = tiling.stack, not (tiling.flexible or tiling.across)  # short rows are read at once
    HELD = WORDS * STACK

    def deferred(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tiles = cuda.local.array(HELD, WORD)
        smallest = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r0 = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            smallest[level] = HIGHEST
        first = types.int64(0)
        while first < n:
            for level in range(STACK):
                r = r0 + level * ROWS
                length = n if r < rows else types.int64(0)
                source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
                head, end = bounds(phase + source, length)
                read(x, source, x_step, lane, lanes, head + first, end, tiles, level * WORDS)
                if first > 0:  # the edges come with the first tile: before it, its loads would wait for theirs
                    head, length = types.int64(0), types.int64(0)
                smallest[level] = minimum(smallest[level], read_edge(x, source, lane, head, end, length))
            for level in range(STACK):
                smallest[level] = smallest_of(tiles, level * WORDS, smallest[level])
            first = n if ONCE else first + lanes * SIZE
        for level in range(STACK):
            r = r0 + level * ROWS
            value = reduce_min(smallest[level], scratch)
            if lane == 0 and r < rows:
                _, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
                store(out, target, value)

    blocks = 8 if ONCE and tiling.threads <= 128 else 1  # 1024 threads an SM with 64 registers each
    return Source(deferred, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling), blocks)


@cache
def rows_deferred_tile_kernel(dtype: str) -> Source:
    """A block takes TILE_ROWS consecutive short rows, a thread each, by way of shared memory: as one piece of memory
    they are copied in whole vectors, wherever the rows begin."""
    storage = STORAGE[dtype]
    load, store = elements(dtype)
    copy_in, wait_copies, _, widened, set_narrow = machine.tile_functions(dtype)
    VEC, ROWS = VECTOR_BYTES // itemsize(dtype), TILE_ROWS

    def deferred_tile(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(0, storage, ALIGNED)
        t = types.int64(cuda.threadIdx.x)
        first = types.int64(cuda.blockIdx.x) * ROWS
        base = first * n
        held = min(types.int64(ROWS), rows - first)
        count = held * n
        begins = (phase + base) % VEC  # the same place between two boundaries as in memory
        head = min((VEC - begins) % VEC, count)
        vectors = (count - head) // VEC
        tail = head + vectors * VEC
        j = t
        while j < vectors:
            copy_in(x, base + head + j * VEC, tile, begins + head + j * VEC)
            j += ROWS
        if t < head:
            set_narrow(tile, begins + t, load(x, base + t))
        if tail + t < count:
            set_narrow(tile, begins + tail + t, load(x, base + tail + t))
        wait_copies()
        cuda.syncthreads()
        if t < held:
            at = begins + t * n
            smallest = widened(tile, at)
            i = types.int64(1)
            while i + 3 < n:
                first_two = minimum(widened(tile, at + i), widened(tile, at + i + 1))
                last_two = minimum(widened(tile, at + i + 2), widened(tile, at + i + 3))
                smallest = minimum(smallest, minimum(first_two, last_two))
                i += 4
            while i < n:
                smallest = minimum(smallest, widened(tile, at + i))
                i += 1
            store(out, (first + t) * out_outer, smallest)

    return Source(deferred_tile, (pointer(dtype), pointer(dtype), *OFFSETS), TILE_ROWS, (dtype,))


TILE_ROWS = 128


def is_tiled(v: View, knobs: Knobs) -> bool:
    """Whether the kernel above is the one to take: short rows without a gap, off the boundaries of vectors."""
    return v.edges and v.one_piece and v.n * itemsize(v.dtype) <= knobs.tile_row_bytes


def deep(v: View) -> int:
    """Vectors that a thread has in flight: eight, which is 128 bytes, or 128 kB on an SM of 1024 threads; fewer of the
    narrow integers, which are widened at once. Of single elements, eight as well."""
    if v.vec == 1 or itemsize(v.dtype) >= 4 or v.dtype in ("float16", "bfloat16"):
        return 8
    return 32 // v.vec


def rows_tiling(v: View, knobs: Knobs) -> Tiling:
    """A warp to a row of over 64 vectors, half a warp to a shorter one, several rows a thread, in blocks of 128
    threads; a longer row has a block of up to 256, of which an SM runs four or more, or 512 where that saves a second
    batch of loads or rows are few."""
    if v.across:
        if v.n <= 32 and v.neighbours >= 32:
            return Tiling(1, 256, v.n, 1, across=True, stack=max(1, 16 // power_of_two(v.n)))
        rows = min(32, power_of_two(v.neighbours))
        lanes = min(256 // rows, max(power_of_two(-(-v.n // 8)), 64 // rows))
        return Tiling(lanes, rows, min(8, power_of_two(-(-v.n // lanes))), 1, across=True)
    vec, edges, most = v.vec, v.edges, deep(v)
    if v.n < 4 * vec and edges:  # too short for aligned vectors: lane by lane
        vec, edges = 1, False
    vectors = max(1, v.n // vec)
    lanes = min(power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    if edges:
        lanes = max(lanes, min(2 * vec, WARP))  # an edge element each
    tiles = power_of_two(-(-vectors // lanes))
    if tiles <= most and (not edges or 2 * vec <= WARP):
        return Tiling(lanes, 128 // lanes, tiles, vec, edges, stack=max(1, min(knobs.stacked, most) // tiles))
    wide = v.rows <= knobs.few_rows or vectors <= knobs.wide_vectors * most
    return Tiling(512 if wide else 256, 1, most, v.vec, v.edges, flexible=True)


@register("numba", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A group of threads per row, each tile of which is reduced to a scalar before it is combined: the simple form."""
    return planned(plan_rows, Knobs, x, out)


def plan_rows(v: View, device: torch.device, knobs: Knobs) -> BindView:
    tiling = replace(rows_tiling(v, knobs), stack=1)
    return _over_rows("numba/min/rows", rows_kernel(v.dtype, tiling), tiling, v, device)


@register("numba", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A group of threads per row, the minimum kept lane by lane and reduced across lanes once, after the loop."""
    return planned(plan_rows_deferred, Knobs, x, out)


def plan_rows_deferred(v: View, device: torch.device, knobs: Knobs) -> BindView:
    by_columns = _on_columns(v, device, knobs, 1)
    if by_columns is not None:
        return by_columns
    grid = -(-v.rows // TILE_ROWS)
    if is_tiled(v, knobs) and grid <= GRID_LIMIT:
        shared = TILE_ROWS * v.n * itemsize(v.dtype) + VECTOR_BYTES
        return prepare(rows_deferred_tile_kernel(v.dtype), device).call(grid, *v.offsets, shared=shared)
    tiling = rows_tiling(v, knobs)
    return _over_rows("numba/min/rows_deferred", rows_deferred_kernel(v.dtype, tiling), tiling, v, device)


def _over_rows(id: str, source: Source, tiling: Tiling, v: View, device: torch.device) -> BindView:
    """A call with as many blocks as it takes to cover the rows."""
    grid = -(-v.rows // (tiling.rows * tiling.stack))
    if grid > GRID_LIMIT:
        raise UnsupportedProblemError(id, f"{v.rows} rows need {grid} blocks, and a launch has {GRID_LIMIT} at most")
    return prepare(source, device).call(grid, *v.offsets, threads=tiling.lanes_for(v.n) * tiling.rows)


# ---------------------------------------------------------------------------------------------------------------------
# atomic_eager and atomic_batched: parallel over the reduced axis, met by atomics

SLAB_OFFSETS = (types.int64,) * 13  # View.offsets, then chunks, span, slab


@cache
def fill_kernel(dtype: str) -> Source:
    """The identity into every result, which atomics then lower. One thread per row."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)

    def fill(results, rows, inner, outer_stride, inner_stride):
        r = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if r < rows:
            target, _ = begin(r, inner, outer_stride, inner_stride, outer_stride, inner_stride)
            results[target] = HIGHEST

    return Source(fill, (types.CPointer(kind), *(types.int64,) * 4), THREADS, (dtype,))


@cache
def narrow_kernel(dtype: str) -> Source:
    """From the 32-bit numbers that atomics work on to an output of a narrower dtype. One thread per row."""
    _, store = elements(dtype)

    def narrow(results, out, rows, inner, out_outer, out_inner):
        r = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if r < rows:
            target, _ = begin(r, inner, out_outer, out_inner, out_outer, out_inner)
            store(out, target, results[r])

    return Source(narrow, (types.CPointer(WIDE[dtype]), pointer(dtype), *(types.int64,) * 4), THREADS, (dtype,))


@cache
def atomic_eager_kernel(dtype: str, tiling: Tiling) -> Source:
    """Program p owns ``span`` columns of ``slab`` rows, and sends each tile of rows out by atomics at once.

    ``tiling.rows`` is BLOCK_M, ``span`` BLOCK_N, and ``tiling.tile`` the SUB_BLOCK_N that is on chip at once.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of, seat = folding(dtype, tiling), seating(tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def eager(
        x, results, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, slab
    ):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + group
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
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
            smallest = reduce_min(smallest, scratch)
            if lane == 0 and r < rows:
                atomic_min(results, target, smallest)
            done += ROWS

    return Source(eager, (pointer(dtype), types.CPointer(kind), *SLAB_OFFSETS), tiling.threads, (dtype, tiling))


@cache
def atomic_batched_kernel(dtype: str, tiling: Tiling) -> Source:
    """As atomic_eager, but the minima of the whole slab wait in shared memory and go out in one burst at the end."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of, seat = folding(dtype, tiling), seating(tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def batched(
        x, results, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, slab
    ):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        minima = cuda.shared.array(BATCH, kind)
        t = types.int64(cuda.threadIdx.x)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + group
            length = n if r < rows else types.int64(0)
            source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
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
            smallest = reduce_min(smallest, scratch)
            if lane == 0:
                minima[done + group] = smallest
            done += ROWS
        cuda.syncthreads()
        i = types.int64(t)
        while i < slab:
            if r0 + i < rows:
                _, target = begin(r0 + i, inner, x_outer, x_inner, out_outer, out_inner)
                atomic_min(results, target, minima[i])
            i += cuda.blockDim.x

    return Source(batched, (pointer(dtype), types.CPointer(kind), *SLAB_OFFSETS), tiling.threads, (dtype, tiling))


THREADS = 256  # a block of the kernels that have a thread per row
BATCH = 1024
"""Rows of a slab: their minima take 8 kB of shared memory at most, of which an SM has 100 or more."""


def slab_tiling(v: View) -> Tiling:
    """Eight rows side by side, a warp each, or a warp of rows across; as many vectors a thread as rows_tiling has."""
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(256 // rows, rows, 8, 1, across=True)
    return Tiling(32, 8, deep(v), v.vec, v.edges)


def _by_atomics(id: str, kernel: Any, slab_limit: int, v: View, device: torch.device, knobs: Knobs) -> BindView:
    """Fill, reduce, and for the narrow dtypes, which have no atomics, convert from a 32-bit workspace."""
    tiling = slab_tiling(v)
    tile = tiling.lanes * tiling.size
    tiles = -(-v.n // tile)
    # As many blocks of 256 threads for every SM: full, and no ragged last wave worth the name. First from the reduced
    # axis, as many tiles a program as that leaves; the rest from the rows.
    wanted = knobs.atomic_blocks * multiprocessors(device)
    groups = -(-v.rows // tiling.rows)
    chunks = min(tiles, max(1, wanted // min(groups, wanted), multiprocessors(device)))
    span = -(-tiles // chunks) * tile
    chunks = -(-v.n // span)
    slab = min(-(-groups * chunks // wanted), slab_limit // tiling.rows) * tiling.rows
    grid = chunks * -(-v.rows // slab)
    if grid > GRID_LIMIT:
        raise UnsupportedProblemError(id, f"{v.rows} rows need {grid} blocks, and a launch has {GRID_LIMIT} at most")

    narrow_dtype = itemsize(v.dtype) < 4
    outer, inner = v.out_outer, v.out_inner
    if narrow_dtype:
        outer, inner = v.inner, 1  # the workspace is contiguous
    seen = replace(v, out_outer=outer, out_inner=inner)
    row_blocks = -(-v.rows // THREADS)
    fill = prepare(fill_kernel(v.dtype), device).call(row_blocks, v.rows, v.inner, outer, inner)
    reduce = prepare(kernel(v.dtype, tiling), device).call(grid, *seen.offsets, chunks, span, slab)
    if not narrow_dtype:

        def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
            first, second = fill(out), reduce(x, out)

            def launch() -> None:
                first()
                second()

            return launch

        return bind

    narrow = prepare(narrow_kernel(v.dtype), device).call(row_blocks, v.rows, v.inner, v.out_outer, v.out_inner)

    def bind_narrow(x: torch.Tensor, out: torch.Tensor) -> Launch:
        results = torch.empty(v.rows, dtype=WORKSPACE[WIDE[v.dtype]], device=device)
        first, second, third = fill(results), reduce(x, results), narrow(results, out)

        def launch() -> None:
            first()
            second()
            third()

        return owning(launch, results)

    return bind_narrow


WORKSPACE = {
    types.float32: torch.float32,
    types.float64: torch.float64,
    types.int32: torch.int32,
    types.int64: torch.int64,
}
"""torch's names of the types that minima are computed in."""


@register("numba", "min", "atomic_eager")
def atomic_eager(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Programs share out the reduced axis; each tile of rows goes out by an atomic minimum at once."""
    return planned(plan_atomic_eager, Knobs, x, out)


def plan_atomic_eager(v: View, device: torch.device, knobs: Knobs) -> BindView:
    return _by_atomics("numba/min/atomic_eager", atomic_eager_kernel, 2**40, v, device, knobs)


@register("numba", "min", "atomic_batched")
def atomic_batched(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Programs share out the reduced axis; the minima of all their rows go out in one burst of atomics at the end."""
    return planned(plan_atomic_batched, Knobs, x, out)


def plan_atomic_batched(v: View, device: torch.device, knobs: Knobs) -> BindView:
    return _by_atomics("numba/min/atomic_batched", atomic_batched_kernel, BATCH, v, device, knobs)


# ---------------------------------------------------------------------------------------------------------------------
# split: several blocks on one row, met by the last of them


@cache
def split_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each block leaves the minimum of its chunk in a workspace; the last to arrive reduces those of all chunks.

    Who is last is told by a counter per row (or group of rows), which that arrival sets back to 0 for the next launch.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST, before=True)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling, HIGHEST)
    smallest_of, seat = folding(dtype, tiling), seating(tiling)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def split(
        x,
        partials,
        counters,
        out,
        rows,
        inner,
        n,
        x_outer,
        x_step,
        x_inner,
        out_outer,
        out_step,
        out_inner,
        phase,
        chunks,
        span,
    ):
        tile = cuda.local.array(WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        is_last = cuda.shared.array(1, types.int32)
        t = types.int64(cuda.threadIdx.x)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        chunk, team = block % chunks, block // chunks
        r = team * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        smallest = HIGHEST
        first = head + chunk * span
        last = min(first + span, end)
        if chunk > 0:
            head, length = types.int64(0), types.int64(0)  # the edges are the first chunk's
        while first < last or length > 0:
            read(x, source, x_step, lane, lanes, first, last, tile, 0)
            smallest = minimum(smallest, read_edge(x, source, lane, head, end, length))
            head, length = types.int64(0), types.int64(0)
            smallest = smallest_of(tile, 0, smallest)
            first += lanes * SIZE
        smallest = reduce_min(smallest, scratch)
        if lane == 0 and r < rows:
            partials[r * chunks + chunk] = smallest
        cuda.syncthreads()
        if t == 0:
            is_last[0] = 1 if arrive(counters, team, chunks - 1) == chunks - 1 else 0
        cuda.syncthreads()
        if is_last[0] == 1:
            smallest = HIGHEST
            part = lane if r < rows else chunks
            while part < chunks:
                smallest = minimum(smallest, partials[r * chunks + part])
                part += lanes
            smallest = reduce_min(smallest, scratch)
            if lane == 0 and r < rows:
                store(out, target, smallest)

    arguments = (
        pointer(dtype),
        types.CPointer(kind),
        types.CPointer(types.int32),
        pointer(dtype),
        *(types.int64,) * 12,
    )
    return Source(split, arguments, tiling.threads, (dtype, tiling))


def split_tiling(v: View) -> Tiling:
    """Blocks of up to 256 threads with eight vectors each in flight, four to an SM."""
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(256 // rows, rows, 8, 1, across=True)
    return Tiling(256, 1, deep(v), v.vec, v.edges, flexible=True)


def chunking(v: View, tiling: Tiling, processors: int, knobs: Knobs) -> tuple[int, int]:
    """``(chunks, span)``: one wave of blocks, two to an SM, each with a batch of loads at least. Four would be as many
    as run at once, but each adds an arrival to the end; across rows, with narrower loads, four are better."""
    blocks = (4 if tiling.across else knobs.split_blocks) * processors
    groups = -(-v.rows // tiling.rows)
    tile = tiling.lanes * tiling.size
    chunks = max(1, min(-(-v.n // tile), blocks // min(blocks, groups)))
    span = -(-v.n // (chunks * LINE)) * LINE
    return -(-v.n // span), span


LINE = 128  # elements: chunks begin on a line of the cache whatever the dtype


@cache
def cluster_kernel(dtype: str, tiling: Tiling) -> Source:
    """A cluster of ``blocks`` blocks per row, ``share`` elements each: every warp sends its minimum to the first
    block's shared memory, and that block reduces them once all have come. The others don't wait for that."""
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for

    kind, HIGHEST = WIDE[dtype], highest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST, before=True)
    _, store = elements(dtype)
    smallest_of = folding(dtype, tiling)
    BYTES = kind.bitwidth // 8

    def cluster(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, blocks, share):
        tile = cuda.local.array(WORDS, WORD)
        minima = cuda.shared.array(512, kind)  # of up to 16 blocks of 32 warps
        barrier = cuda.shared.array(1, types.int64)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps = threads // WARP
        cluster_arrive(barrier, blocks * warps * BYTES)
        block = types.int64(cuda.blockIdx.x)
        r, rank = block // blocks, block % blocks
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        smallest = HIGHEST
        first = head + rank * share
        last = min(first + share, end)
        length = n
        if rank > 0:
            head, length = types.int64(0), types.int64(0)  # the edges are the first block's
        while first < last or length > 0:
            read(x, source, x_step, t, threads, first, last, tile, 0)
            smallest = minimum(smallest, read_edge(x, source, t, head, end, length))
            head, length = types.int64(0), types.int64(0)
            smallest = smallest_of(tile, 0, smallest)
            first += threads * SIZE
        for step in range(5):
            smallest = minimum(smallest, cuda.shfl_xor_sync(EVERY_LANE, smallest, 16 >> step))
        cluster_wait()  # the other blocks have begun: their shared memory is there
        if t % WARP == 0:
            send(minima, rank * warps + t // WARP, (smallest,), barrier, types.int64(0))
        if rank == 0 and t < WARP:
            wait_for(barrier)
            smallest = HIGHEST
            i = t
            while i < blocks * warps:
                smallest = minimum(smallest, minima[i])
                i += WARP
            for step in range(5):
                smallest = minimum(smallest, cuda.shfl_xor_sync(EVERY_LANE, smallest, 16 >> step))
            if t == 0:
                store(out, target, smallest)

    arguments = (pointer(dtype), pointer(dtype), *(types.int64,) * 12)
    return Source(cluster, arguments, tiling.threads, (dtype, tiling))


def cluster_tiling(v: View) -> Tiling:
    """Up to 1024 threads: so each has 64 registers, and an SM runs two blocks of 512."""
    return Tiling(1024, 1, deep(v), v.vec, v.edges, flexible=True)


def cluster_shape(v: View, knobs: Knobs) -> tuple[int, int] | None:
    """``(blocks, threads)`` of a cluster per row, or None where an arrival in memory does better: with few blocks a
    row, the cluster's barrier is the shorter way; more rows fill the device alone."""
    if not knobs.cluster_least <= v.rows <= knobs.cluster_most or not 2**14 <= v.n <= 2**19:
        return None
    return (8 if v.rows <= 16 else 4), 512


@register("numba", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks per row, partial minima in a workspace, reduced by the last block to arrive; no atomic minimum."""
    return planned(plan_split, Knobs, x, out)


def plan_split(v: View, device: torch.device, knobs: Knobs) -> BindView:
    active = flat_active(v, multiprocessors(device))
    if active is not None:
        return _on_flat(v, device, active)
    by_columns = _on_columns(v, device, knobs, CLUSTER) if has_clusters(device) else None
    if by_columns is not None:
        return by_columns
    tiling = split_tiling(v)
    shape = cluster_shape(v, knobs) if has_clusters(device) and not v.across else None
    if shape is not None:
        blocks, threads = shape
        share = -(-v.n // (blocks * LINE)) * LINE
        kernel = prepare(cluster_kernel(v.dtype, cluster_tiling(v)), device)
        return kernel.call(v.rows * blocks, *v.offsets, blocks, share, threads=threads, cluster=blocks)
    chunks, span = chunking(v, tiling, multiprocessors(device), knobs)
    groups = -(-v.rows // tiling.rows)
    if groups * chunks > GRID_LIMIT:
        raise UnsupportedProblemError(
            "numba/min/split", f"{v.rows} rows need {groups * chunks} blocks, and a launch has {GRID_LIMIT} at most"
        )
    kernel = prepare(split_kernel(v.dtype, tiling), device)
    threads = tiling.lanes_for(span) * tiling.rows
    reduce = kernel.call(groups * chunks, *v.offsets, chunks, span, threads=threads)

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        partials = torch.empty(v.rows * chunks, dtype=WORKSPACE[WIDE[v.dtype]], device=device)
        counters = torch.zeros(groups, dtype=torch.int32, device=device)
        return owning(reduce(x, partials, counters, out), partials, counters)

    return bind


# ---------------------------------------------------------------------------------------------------------------------
# rows_deferred and split by columns


COLUMN_OFFSETS = (types.int64,) * 13  # Columns.offsets, the phase, blocks that share a strip, and Strips.offsets
MOST_THREADS = 512
AT_ONCE = 8  # vectors for each thread, or there are fewer of them
CLUSTER = 8  # blocks that share a strip, at most: as many as every device with clusters runs
NARROW = 4  # vectors across, where the device is idle otherwise: 64 bytes, with which less of each line is used
MOST_WIDE = 256  # rows of a strip: what a cluster of 8 has of them fits 48 kB of shared memory in every dtype


@cache
def columns_kernel(dtype: str, tiles: int, in_clusters: bool) -> Source:
    """Rows side by side, wherever they begin: each thread goes down ``tiles`` whole aligned vectors at a time.

    A block takes a strip of ``wide`` neighbouring rows, ``across`` to a group. ``lanes`` threads read the vectors that
    their elements of one place lie in, neighbours' along with them; ``depths`` places that far down, a period after
    which rows begin at the same places in vectors, come the next. So each lane of a thread's vectors stays with one
    row, all the way, and they meet at the end, without the neighbours'. In clusters, blocks take turns, and the first
    of them reduces what all have found.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    VEC = VECTOR_BYTES // itemsize(dtype)
    LOW_BITS, SHIFT, TILES = VEC - 1, VEC.bit_length() - 1, tiles
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, ALL_SLOTS = WORDS * tiles, MOST_WIDE * CLUSTER if in_clusters else 1
    PITCH = MOST_THREADS + WARP // VEC  # neighbouring elements, which neighbouring threads read, are in other banks
    PLACES = VEC * PITCH
    IDENTITY = spread(dtype, VEC, HIGHEST)
    load_vector, _ = machine.vector_functions(dtype, VEC)
    load, store = elements(dtype)
    combine, unfold = _by_column(dtype, VEC, WORDS)
    cluster_arrive, cluster_wait, send, wait_for = columns_of.cluster_words(in_clusters)
    BYTES = kind.bitwidth // 8

    def columns(
        x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, phase, blocks, across, lanes, wide, depths
    ):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, (blocks - 1) * wide * BYTES)
        held = cuda.local.array(HELD, WORD)
        least = cuda.local.array(WORDS, WORD)
        own = cuda.local.array(VEC, kind)
        places = cuda.shared.array(PLACES, kind)
        minima = cuda.shared.array(MOST_THREADS, kind)
        all_minima = cuda.shared.array(ALL_SLOTS, kind)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        depth = quotient(t, lanes)
        lane = t - depth * lanes
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks)
        rank = block - place * blocks
        group = quotient(place, across)
        column = (place - group * across) * wide
        live = min(wide, neighbours - column)
        source = group * x_group + column
        every = (groups - 1) * x_group + (n - 1) * x_step + neighbours
        head, tail = -phase & LOW_BITS, every - (phase + every & LOW_BITS)  # between them, x is whole vectors
        begins = lane * VEC - (phase + source + depth * x_step & LOW_BITS)
        apart = depths * blocks
        i = rank * depths + depth
        end = n if depth < depths and begins < live else types.int64(0)
        if source + begins + i * x_step < 0:
            i += apart
        if source + begins + (n - 1) * x_step >= tail:
            end = min(end, n - 1)
        at, step = source + begins + i * x_step, apart * x_step
        for k in range(WORDS):
            least[k] = IDENTITY
        while i < end:
            for tile in range(TILES):
                for k in range(WORDS):
                    held[tile * WORDS + k] = IDENTITY
                load_vector(x, at + tile * step, held, tile * WORDS, i + tile * apart < end)
            for tile in range(TILES):
                for k in range(WORDS):
                    least[k] = combine(least[k], held[tile * WORDS + k])
            i += TILES * apart
            at += TILES * step
        unfold(least, own)
        for k in range(VEC):
            places[k * PITCH + t] = own[k]
        cuda.syncthreads()

        # Of each row: its places by as many threads as there are for it, then these by one.
        sharers, sharer = quotient(threads, wide), quotient(t, wide)
        row = t - sharer * wide
        value = HIGHEST
        if row < live:
            depth = sharer if sharer < sharers else depths
            while depth < depths:
                j = row + (phase + source + depth * x_step & LOW_BITS)
                value = minimum(value, places[(j & LOW_BITS) * PITCH + depth * lanes + (j >> SHIFT)])
                depth += sharers
            if rank == 0 and sharer == 0:  # what lies in no whole vector
                if source + row < head:
                    value = minimum(value, load(x, source + row))
                if source + row + (n - 1) * x_step >= tail:
                    value = minimum(value, load(x, source + row + (n - 1) * x_step))
        minima[t] = value
        cuda.syncthreads()
        if t < live:
            for sharer in range(1, sharers):
                value = minimum(value, minima[sharer * wide + t])
        if in_clusters:
            cluster_wait()  # the first block has begun: its shared memory is there
            if rank > 0 and t < wide:  # all of them, since the last strip's rows aren't counted before the arrival
                send(all_minima, rank * MOST_WIDE + t, (value,), barrier, types.int64(0))
        if rank == 0 and t < live:
            if in_clusters:
                wait_for(barrier)
                for peer in range(1, blocks):
                    value = minimum(value, all_minima[peer * MOST_WIDE + t])
            store(out, group * out_group + (column + t) * out_step, value)

    arguments = (pointer(dtype), pointer(dtype), *COLUMN_OFFSETS)
    return Source(columns, arguments, MOST_THREADS, (dtype, tiles, in_clusters), 2)


@dataclass(frozen=True)
class Strips:
    """How ``columns_kernel`` cuts columns."""

    across: int
    """Strips of a group of rows."""
    lanes: int
    wide: int
    depths: int

    @property
    def threads(self) -> int:
        return -(-max(self.lanes * self.depths, self.wide) // WARP) * WARP

    @property
    def offsets(self) -> tuple[int, ...]:
        return self.across, self.lanes, self.wide, self.depths


def strips(v: View, lanes: int, threads: int) -> tuple[Columns, Strips] | None:
    """Strips of up to so many vectors, for blocks of up to so many threads; None if vectors don't cover the view."""
    c = columns_of.single_columns(v)
    vec = VECTOR_BYTES // itemsize(v.dtype)
    if c is None or not vec <= c.neighbours <= c.x_step or (c.groups > 1 and c.x_group < c.neighbours):
        return None
    extra = vec - 1 if columns_of.columns(v) is None else 0  # elements of neighbours beside the rows of a strip
    period = vec // gcd(vec, c.x_step)
    most = min(lanes, MOST_WIDE // vec, threads // period) * vec - extra
    across = -(-c.neighbours // most)
    wide = -(-c.neighbours // across)
    if not extra:
        wide = -(-wide // vec) * vec
    lanes = -(-(wide + extra) // vec)
    depths = min(threads // lanes // period, -(-c.n // (AT_ONCE * period))) * period
    return c, Strips(across, lanes, wide, depths)


def are_few(c: Columns, s: Strips, blocks: int, processors: int) -> bool:
    """Whether so many blocks to a strip leave two thirds of the device idle, with several batches for each thread."""
    return 3 * c.groups * s.across * blocks < processors and c.n >= 4 * blocks * s.depths * AT_ONCE


@cache
def flat_kernel(dtype: str, tiles: int) -> Source:
    """Few rows side by side, at whatever width, as one piece of memory: threads go round the rows together, so that
    each place in a thread's vectors is of the same row. Blocks meet at the last one to arrive, as in ``split_kernel``.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    VEC, TILES, THREADS = VECTOR_BYTES // itemsize(dtype), tiles, FLAT_THREADS
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, SLOTS = WORDS * tiles, FLAT_THREADS * VEC
    IDENTITY = spread(dtype, VEC, HIGHEST)
    load_vector, _ = machine.vector_functions(dtype, VEC)
    load, store = elements(dtype)
    combine, unfold = _by_column(dtype, VEC, WORDS)

    def flat(x, partials, counters, out, rows, n, active, out_step):
        held = cuda.local.array(HELD, WORD)
        least = cuda.local.array(WORDS, WORD)
        own = cuda.local.array(VEC, kind)
        places = cuda.shared.array(SLOTS, kind)
        is_last = cuda.shared.array(1, types.int32)
        t = types.int64(cuda.threadIdx.x)
        block, blocks = types.int64(cuda.blockIdx.x), types.int64(cuda.gridDim.x)
        count = rows * n
        vectors = count // VEC
        share = ((vectors + active - 1) // active + blocks - 1) // blocks * active
        i = block * share + t
        last = min(block * share + share, vectors) if t < active else types.int64(0)
        for k in range(WORDS):
            least[k] = IDENTITY
        while i < last:
            for tile in range(TILES):
                for k in range(WORDS):
                    held[tile * WORDS + k] = IDENTITY
                at = i + tile * active
                load_vector(x, at * VEC, held, tile * WORDS, at < last)
            for tile in range(TILES):
                for k in range(WORDS):
                    least[k] = combine(least[k], held[tile * WORDS + k])
            i += TILES * active
        unfold(least, own)
        for k in range(VEC):
            places[t * VEC + k] = own[k]
        cuda.syncthreads()

        # Of each row: its places by as many threads as there are for it, then these by one.
        sharers = THREADS // rows
        row, sharer = t % rows, t // rows
        value = HIGHEST
        if sharer < sharers:
            i = t
            while i < active * VEC:
                value = minimum(value, places[i])
                i += sharers * rows
            i = vectors * VEC if block == 0 and sharer == 0 else count
            while i < count:  # what is left over after the last whole vector
                if i % rows == row:
                    value = minimum(value, load(x, i))
                i += 1
        cuda.syncthreads()
        places[t] = value
        cuda.syncthreads()
        if t < rows:
            for i in range(1, sharers):
                value = minimum(value, places[i * rows + t])
            partials[block * rows + t] = value
        cuda.syncthreads()
        if t == 0:
            is_last[0] = 1 if arrive(counters, types.int64(0), blocks - 1) == blocks - 1 else 0
        cuda.syncthreads()
        if is_last[0] == 1:
            value = HIGHEST
            if sharer < sharers:
                i = sharer
                while i < blocks:
                    for step in range(8):  # all on their way before the first is waited for
                        part = min(i + step * sharers, blocks - 1)
                        value = minimum(value, partials[part * rows + row])
                    i += 8 * sharers
            places[t] = value
            cuda.syncthreads()
            if t < rows:
                for i in range(1, sharers):
                    value = minimum(value, places[i * rows + t])
                store(out, t * out_step, value)

    arguments = (
        pointer(dtype),
        types.CPointer(kind),
        types.CPointer(types.int32),
        pointer(dtype),
        *(types.int64,) * 4,
    )
    return Source(flat, arguments, FLAT_THREADS, (dtype, tiles), FLAT_BLOCKS)


FLAT_THREADS = 512
FLAT_BLOCKS = 2  # on an SM


def flat_active(v: View, processors: int) -> int | None:
    """Threads that go round the rows together, or None where that is not the way: long columns, so few that a block
    has a thread for each, at a width that no vector divides, or too few for clusters on strips."""
    c = columns_of.flat_columns(v)
    if c is None or c.neighbours > FLAT_THREADS // 2 or c.n < 1024:
        return None
    if c.neighbours % c.vec == 0:
        cut = strips(v, NARROW, MOST_THREADS)
        if cut is None or not are_few(*cut, CLUSTER, processors):
            return None
    return c.in_step(FLAT_THREADS)


def _on_flat(v: View, device: torch.device, active: int) -> BindView:
    vec, tiles = VECTOR_BYTES // itemsize(v.dtype), deep(replace(v, vec=VECTOR_BYTES // itemsize(v.dtype)))
    blocks = max(1, min(FLAT_BLOCKS * multiprocessors(device), v.n * v.neighbours // (vec * tiles * active)))
    call = prepare(flat_kernel(v.dtype, tiles), device).call(
        blocks, v.neighbours, v.n, active, v.out_outer, threads=FLAT_THREADS
    )

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        partials = torch.empty(blocks * v.neighbours, dtype=WORKSPACE[WIDE[v.dtype]], device=device)
        counters = torch.zeros(1, dtype=torch.int32, device=device)
        return owning(call(x, partials, counters, out), partials, counters)

    return bind


@cache
def _by_column(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """``combine(a, b)`` of two words of rows side by side, and ``unfold(words, row)`` into one element for each row."""

    @cuda.jit(device=True, inline="always")
    def copy(row, elements):
        for j in range(words):
            elements[j] = row[j]

    if not machine.is_packed(dtype, vec):
        return minimum, copy
    low, high, _, _, least = machine.word_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def widen(row, elements):
        for j in range(words):
            elements[2 * j] = low(row[j])
            elements[2 * j + 1] = high(row[j])

    return least, widen


def columns_plan(v: View, processors: int, knobs: Knobs, most_blocks: int) -> tuple[Columns, Strips, int] | None:
    """Columns, their strips, and the blocks of a cluster that share one; None where vectors don't cover them.

    Strips are narrow, 128 bytes, and deep, so that blocks meet little; wider where that alone makes more blocks than
    run at once, so that each has more to read. A block has twice the threads where an SM gets but one; not in clusters
    of more than two, unless even those are too few for the device.
    """
    if v.n < knobs.columns_long:
        return None
    cut = None
    for lanes in (8, 16, 32, 64):
        cut = strips(v, lanes, MOST_THREADS // 2)
        if cut is None or cut[0].groups * cut[1].across <= 2 * processors:
            break
    if cut is None:
        return None
    c, s = cut
    tiles = c.groups * s.across
    blocks = 1
    if tiles <= processors:
        wanted = power_of_two(-(-knobs.columns_percent * processors // (100 * tiles)))
        if not 2 < wanted <= most_blocks:
            c, s = strips(v, lanes, MOST_THREADS) or cut
        if are_few(c, s, most_blocks, processors):
            c, s = strips(v, NARROW, MOST_THREADS) or cut
        tiles = c.groups * s.across
        blocks = max(1, min(most_blocks, wanted, power_of_two(c.n // (s.depths * AT_ONCE))))
    return None if tiles * blocks > GRID_LIMIT else (c, s, blocks)


def _on_columns(v: View, device: torch.device, knobs: Knobs, most_blocks: int) -> BindView | None:
    """A call by columns, in clusters of up to so many blocks; None if vectors don't cover them."""
    plan = columns_plan(v, multiprocessors(device), knobs, most_blocks)
    if plan is None:
        return None
    c, s, blocks = plan
    tiles = deep(replace(v, vec=VECTOR_BYTES // itemsize(v.dtype)))
    kernel = prepare(columns_kernel(v.dtype, tiles, blocks > 1), device)
    return kernel.call(
        c.groups * s.across * blocks, *c.offsets, v.phase, blocks, *s.offsets, threads=s.threads, cluster=blocks
    )


# ---------------------------------------------------------------------------------------------------------------------


@register("numba", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows, unless they are too few to fill the device and long enough to be worth splitting."""
    if x.size(0) * x.size(2) > GRID_LIMIT:
        return in_halves(auto, x, out)
    return planned(plan_auto, Knobs, x, out)


def plan_auto(v: View, device: torch.device, knobs: Knobs) -> BindView:
    if flat_active(v, multiprocessors(device)) is not None:
        return plan_split(v, device, knobs)
    by_columns = columns_plan(v, multiprocessors(device), knobs, CLUSTER) if has_clusters(device) else None
    if by_columns is not None:
        _, _, blocks = by_columns
        return plan_split(v, device, knobs) if blocks > 1 else plan_rows_deferred(v, device, knobs)
    tiling = rows_tiling(v, knobs)
    groups = -(-v.rows // (tiling.rows * tiling.stack))
    if v.across:
        few = groups < knobs.across_blocks * multiprocessors(device) and v.n > 2 * tiling.lanes * tiling.size
    else:
        few = v.rows <= knobs.split_rows and v.n > 256 * tiling.size
    return plan_split(v, device, knobs) if few and not is_tiled(v, knobs) else plan_rows_deferred(v, device, knobs)
