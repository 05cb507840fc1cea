"""The minimum in Numba CUDA: the same algorithms as in the other languages, over the threads of a block.

A NaN must win, which ``min`` and Numba's own atomics do not see to: kernels take ``minimum`` and ``atomic_min`` of
:mod:`.machine`. Half precision is compared in float32 and the narrow integers in int32, which is exact.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, highest, itemsize
from kernelzoo.kernels.numba.launch import Source, multiprocessors, prepare
from kernelzoo.kernels.numba.row import (
    Tiling,
    access,
    arrive,
    atomic_min,
    begin,
    elements,
    minimum,
    pointer,
    reductions,
)
from kernelzoo.kernels.numba.view import BindView, View, planned, power_of_two
from kernelzoo.registry import Launch, register

GRID_LIMIT = 2**31 - 1  # blocks in a launch
OFFSETS = (types.int64,) * 10  # View.offsets


# ---------------------------------------------------------------------------------------------------------------------
# rows and rows_deferred: parallel over rows


@cache
def rows_kernel(dtype: str, tiling: Tiling) -> Source:
    """Every tile of a row is reduced over its lanes to one value before it is combined with what came before."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def by_tiles(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        r = types.int64(cuda.blockIdx.x) * ROWS + t // GROUP_STEP % ROWS
        length = n if r < rows else types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        smallest = reduce_min(read_edge(x, source, lane, head, end, length), scratch)
        first = types.int64(0)
        while first < n:  # as many times in every thread of the block, since all of them reduce
            read(x, source, x_step, lane, head + first, end, tile, 0)
            value = tile[0]
            for k in range(1, SIZE):
                value = minimum(value, tile[k])
            smallest = minimum(smallest, reduce_min(value, scratch))
            first += TILE
        if lane == 0 and r < rows:
            store(out, target, smallest)

    return Source(by_tiles, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


@cache
def rows_deferred_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the minimum of its share, for ``stack`` rows at once; lanes meet once, after the loop."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP, STACK = tiling.lane_step, tiling.group_step, tiling.stack
    HELD = SIZE * STACK

    def deferred(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tiles = cuda.local.array(HELD, kind)
        smallest = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        r0 = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + t // GROUP_STEP % ROWS
        for level in range(STACK):
            r = r0 + level * ROWS
            length = n if r < rows else types.int64(0)
            source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            smallest[level] = read_edge(x, source, lane, head, end, length)
        first = types.int64(0)
        while first < n:
            for level in range(STACK):
                r = r0 + level * ROWS
                length = n if r < rows else types.int64(0)
                source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
                head, end = bounds(phase + source, length)
                read(x, source, x_step, lane, head + first, end, tiles, level * SIZE)
            for level in range(STACK):
                for k in range(SIZE):
                    smallest[level] = minimum(smallest[level], tiles[level * SIZE + k])
            first += TILE
        for level in range(STACK):
            r = r0 + level * ROWS
            value = reduce_min(smallest[level], scratch)
            if lane == 0 and r < rows:
                _, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
                store(out, target, value)

    return Source(deferred, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


def rows_tiling(v: View) -> Tiling:
    """Four vectors a thread in flight, which is 64 bytes, or 128 kB on an SM full of threads; at most 32
    elements, which is what a thread's registers hold of the widened dtypes. Short rows have as few lanes as hold them,
    and share a block of 256 threads; a longer row has a block of up to 512."""
    if v.across:
        if v.n <= 32 and v.neighbours >= 32:
            return Tiling(1, 256, v.n, 1, across=True, stack=max(1, 16 // power_of_two(v.n)))
        rows = min(32, power_of_two(v.neighbours))
        lanes = min(256 // rows, max(power_of_two(-(-v.n // 8)), 64 // rows))
        return Tiling(lanes, rows, min(8, power_of_two(-(-v.n // lanes))), 1, across=True)
    vec = v.vec
    lanes = min(power_of_two(-(-v.n // vec)), 32)
    if v.edges and (2 * vec > lanes or v.n < 8 * vec):  # too short for aligned vectors: lane by lane
        vec, lanes = 1, min(power_of_two(v.n), 32)
    edges = v.edges and vec > 1
    tiles = -(-v.n // (lanes * vec))
    most = min(4, 32 // vec) if vec > 1 else 16
    if tiles <= most:
        return Tiling(lanes, 256 // lanes, tiles, vec, edges, stack=max(1, most // power_of_two(tiles)))
    vec, edges, most = v.vec, v.edges, min(4, 32 // v.vec) if v.vec > 1 else 8
    lanes = min(512, max(64, power_of_two(-(-v.n // (vec * most)))))
    return Tiling(lanes, 1, most, vec, edges)


@register("numba", "min", "rows")
def rows(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A group of threads per row, each tile of which is reduced to a scalar before it is combined: the simple form."""
    return planned(plan_rows, x, out)


def plan_rows(v: View, device: torch.device) -> BindView:
    tiling = replace(rows_tiling(v), stack=1)
    return _over_rows("numba/min/rows", rows_kernel(v.dtype, tiling), tiling, v, device)


@register("numba", "min", "rows_deferred")
def rows_deferred(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A group of threads per row, the minimum kept lane by lane and reduced across lanes once, after the loop."""
    return planned(plan_rows_deferred, x, out)


def plan_rows_deferred(v: View, device: torch.device) -> BindView:
    tiling = rows_tiling(v)
    return _over_rows("numba/min/rows_deferred", rows_deferred_kernel(v.dtype, tiling), tiling, v, device)


def _over_rows(id: str, source: Source, tiling: Tiling, v: View, device: torch.device) -> BindView:
    """A call with as many blocks as it takes to cover the rows."""
    grid = -(-v.rows // (tiling.rows * tiling.stack))
    if grid > GRID_LIMIT:
        raise UnsupportedProblemError(id, f"{v.rows} rows need {grid} blocks, and a launch has {GRID_LIMIT} at most")
    return prepare(source, device).call(grid, *v.offsets)


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

    return Source(fill, (types.CPointer(kind), *(types.int64,) * 4), THREADS)


@cache
def narrow_kernel(dtype: str) -> Source:
    """From the 32-bit numbers that atomics work on to an output of a narrower dtype. One thread per row."""
    _, store = elements(dtype)

    def narrow(results, out, rows, inner, out_outer, out_inner):
        r = types.int64(cuda.blockIdx.x) * THREADS + cuda.threadIdx.x
        if r < rows:
            target, _ = begin(r, inner, out_outer, out_inner, out_outer, out_inner)
            store(out, target, results[r])

    return Source(narrow, (types.CPointer(WIDE[dtype]), pointer(dtype), *(types.int64,) * 4), THREADS)


@cache
def atomic_eager_kernel(dtype: str, tiling: Tiling) -> Source:
    """Program p owns ``span`` columns of ``slab`` rows, and sends each tile of rows out by atomics at once.

    ``tiling.rows`` is BLOCK_M, ``span`` BLOCK_N, and ``tiling.tile`` the SUB_BLOCK_N that is on chip at once.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, reduce_min, _ = reductions(tiling)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def eager(
        x, results, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, slab
    ):
        tile = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + t // GROUP_STEP % ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            smallest = HIGHEST
            if chunk == 0:
                smallest = read_edge(x, source, lane, head, end, length)
            first = head + chunk * span
            last = min(first + span, end)
            while first < last:
                read(x, source, x_step, lane, first, last, tile, 0)
                for k in range(SIZE):
                    smallest = minimum(smallest, tile[k])
                first += TILE
            smallest = reduce_min(smallest, scratch)
            if lane == 0 and r < rows:
                atomic_min(results, target, smallest)
            done += ROWS

    return Source(eager, (pointer(dtype), types.CPointer(kind), *SLAB_OFFSETS), tiling.threads)


@cache
def atomic_batched_kernel(dtype: str, tiling: Tiling) -> Source:
    """As atomic_eager, but the minima of the whole slab wait in shared memory and go out in one burst at the end."""
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, reduce_min, _ = reductions(tiling)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP, BLOCK = tiling.lane_step, tiling.group_step, tiling.threads

    def batched(
        x, results, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, slab
    ):
        tile = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        minima = cuda.shared.array(BATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        group = types.int64(t // GROUP_STEP % ROWS)
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
                read(x, source, x_step, lane, first, last, tile, 0)
                for k in range(SIZE):
                    smallest = minimum(smallest, tile[k])
                first += TILE
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
            i += BLOCK

    return Source(batched, (pointer(dtype), types.CPointer(kind), *SLAB_OFFSETS), tiling.threads)


THREADS = 256  # a block of the kernels that have a thread per row
BATCH = 1024
"""Rows of a slab: their minima take 8 kB of shared memory at most, of which an SM has 100 or more."""


def slab_tiling(v: View) -> Tiling:
    """Eight rows side by side, a warp each, or a warp of rows across; four vectors a thread."""
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(256 // rows, rows, 8, 1, across=True)
    return Tiling(32, 8, min(4, 32 // v.vec) if v.vec > 1 else 8, v.vec, v.edges)


def _by_atomics(id: str, kernel: Any, slab_limit: int, v: View, device: torch.device) -> BindView:
    """Fill, reduce, and for the narrow dtypes, which have no atomics, convert from a 32-bit workspace."""
    tiling = slab_tiling(v)
    tiles = -(-v.n // tiling.tile)
    # Four blocks of 256 threads for every SM: full, and no ragged last wave worth the name. First from the reduced
    # axis, as many tiles a program as that leaves; the rest from the rows.
    wanted = 4 * multiprocessors(device)
    groups = -(-v.rows // tiling.rows)
    chunks = min(tiles, max(1, wanted // min(groups, wanted), wanted // 4))
    span = -(-tiles // chunks) * tiling.tile
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

        return launch

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
    return planned(plan_atomic_eager, x, out)


def plan_atomic_eager(v: View, device: torch.device) -> BindView:
    return _by_atomics("numba/min/atomic_eager", atomic_eager_kernel, 2**40, v, device)


@register("numba", "min", "atomic_batched")
def atomic_batched(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Programs share out the reduced axis; the minima of all their rows go out in one burst of atomics at the end."""
    return planned(plan_atomic_batched, x, out)


def plan_atomic_batched(v: View, device: torch.device) -> BindView:
    return _by_atomics("numba/min/atomic_batched", atomic_batched_kernel, BATCH, v, device)


# ---------------------------------------------------------------------------------------------------------------------
# split: several blocks on one row, met by the last of them


@cache
def split_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each block leaves the minimum of its chunk in a workspace; the last to arrive reduces those of all chunks.

    Who is last is told by a counter per row (or group of rows), which that arrival sets back to 0 for the next launch.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, HIGHEST)
    _, store = elements(dtype)
    _, reduce_min, _ = reductions(tiling)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

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
        tile = cuda.local.array(SIZE, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        is_last = cuda.shared.array(1, types.int32)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        block = types.int64(cuda.blockIdx.x)
        chunk, group = block % chunks, block // chunks
        r = group * ROWS + t // GROUP_STEP % ROWS
        length = n if r < rows else types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        smallest = HIGHEST
        if chunk == 0:
            smallest = read_edge(x, source, lane, head, end, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, first, last, tile, 0)
            for k in range(SIZE):
                smallest = minimum(smallest, tile[k])
            first += TILE
        smallest = reduce_min(smallest, scratch)
        if lane == 0 and r < rows:
            partials[r * chunks + chunk] = smallest
        cuda.syncthreads()
        if t == 0:
            is_last[0] = 1 if arrive(counters, group, chunks - 1) == chunks - 1 else 0
        cuda.syncthreads()
        if is_last[0] == 1:
            smallest = HIGHEST
            part = lane if r < rows else chunks
            while part < chunks:
                smallest = minimum(smallest, partials[r * chunks + part])
                part += LANES
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
    return Source(split, arguments, tiling.threads)


def split_tiling(v: View) -> Tiling:
    """Blocks of up to 512 threads with four vectors each in flight, two or three to an SM."""
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(256 // rows, rows, 8, 1, across=True)
    tiles = min(4, 32 // v.vec) if v.vec > 1 else 8
    lanes = min(512, max(32, power_of_two(-(-v.n // (tiles * v.vec)))))
    return Tiling(lanes, 1, tiles, v.vec, v.edges)


def chunking(v: View, tiling: Tiling, processors: int) -> tuple[int, int]:
    """``(chunks, span)``: two to four tiles a chunk, so that the end of a block is a small part of it, but no more than
    leaves two blocks for every SM."""
    groups = -(-v.rows // tiling.rows)
    tiles = -(-v.n // tiling.tile)
    per_chunk = max(1, min(4, tiles * groups // (2 * processors)))
    per_chunk = max(per_chunk, -(-tiles * groups // GRID_LIMIT))
    span = per_chunk * tiling.tile
    return -(-v.n // span), span


@register("numba", "min", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks per row, partial minima in a workspace, reduced by the last block to arrive; no atomic minimum."""
    return planned(plan_split, x, out)


def plan_split(v: View, device: torch.device) -> BindView:
    tiling = split_tiling(v)
    chunks, span = chunking(v, tiling, multiprocessors(device))
    groups = -(-v.rows // tiling.rows)
    if groups * chunks > GRID_LIMIT:
        raise UnsupportedProblemError(
            "numba/min/split", f"{v.rows} rows need {groups * chunks} blocks, and a launch has {GRID_LIMIT} at most"
        )
    reduce = prepare(split_kernel(v.dtype, tiling), device).call(groups * chunks, *v.offsets, chunks, span)

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        partials = torch.empty(v.rows * chunks, dtype=WORKSPACE[WIDE[v.dtype]], device=device)
        counters = torch.zeros(groups, dtype=torch.int32, device=device)
        return reduce(x, partials, counters, out)

    return bind


# ---------------------------------------------------------------------------------------------------------------------


@register("numba", "min", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Parallel over rows, unless they are too few to fill the device and long enough to be worth splitting."""
    return planned(plan_auto, x, out)


def plan_auto(v: View, device: torch.device) -> BindView:
    tiling = rows_tiling(v)
    groups = -(-v.rows // (tiling.rows * tiling.stack))
    if groups < 4 * multiprocessors(device) and v.n > 2 * tiling.tile:
        return plan_split(v, device)
    return plan_rows_deferred(v, device)
