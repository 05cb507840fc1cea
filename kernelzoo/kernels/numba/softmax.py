"""Softmax in Numba CUDA: the same algorithms as in the other languages, over the threads of a block.

A kernel is a Python function whose constants (dtype, tiling) are those of the function around it; Numba compiles one
for each. Rows are read in vectors of 16 bytes where the layout allows (see :mod:`.row`), half precision is computed
in float32, and sums are met in a fixed order, so that the same input gives the same bits.

A row with a NaN or +inf becomes NaN by itself, through its exponentials' sum. The largest of a part that is -inf alone
is replaced by 0 before it is subtracted, or -inf - -inf would make a NaN out of a legal row; where the whole row is
-inf, 0 / 0 is the NaN that is due.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import Source, has_clusters, l2_bytes, multiprocessors, prepare
from kernelzoo.kernels.numba.row import Tiling, access, begin, exponential, maximum, pointer, reductions
from kernelzoo.kernels.numba.view import BindView, View, planned, power_of_two
from kernelzoo.registry import Launch, register

GRID_LIMIT = 2**31 - 1  # blocks in a launch
BLOCK_LIMIT = 1024  # threads in a block
OFFSETS = (types.int64,) * 10  # View.offsets


@cache
def running(dtype: str, size: int) -> tuple[Any, Any]:
    """``finite``, ``absorb``: the running (max, sum) pair of one thread.

    ``finite(m)`` is what to subtract for a largest value of m: m, but 0 for -inf.
    ``absorb(row, m, s)`` takes ``size`` more elements into the pair, rescaling the sum when the max grows
    (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867).
    """
    LOWEST = lowest(dtype)
    ZERO = type(LOWEST)(0)

    @cuda.jit(device=True, inline="always")
    def finite(m):
        return m if m > LOWEST else ZERO

    @cuda.jit(device=True, inline="always")
    def absorb(row, m, s):
        grown = m
        for k in range(size):
            grown = maximum(grown, row[k])
        shift = grown if grown > LOWEST else ZERO
        s *= exponential(m - shift)
        for k in range(size):
            s += exponential(row[k] - shift)
        return grown, s

    return finite, absorb


# ---------------------------------------------------------------------------------------------------------------------
# fused: the row stays in registers


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """One group of threads per row, which it reads once, keeps in registers, and writes once."""
    kind, ONE = WIDE[dtype], one(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, lowest(dtype))
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, _ = running(dtype, tiling.size)
    ROWS, LANES, SIZE, SCRATCH = tiling.rows, tiling.lanes, tiling.size, tiling.scratch
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def fused(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        r = types.int64(cuda.blockIdx.x) * ROWS + t // GROUP_STEP % ROWS
        if r >= rows:
            n = types.int64(0)  # threads without a row go along, for the reductions need whole warps
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        read(x, source, x_step, lane, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, n)

        m = edge
        for k in range(SIZE):
            m = maximum(m, row[k])
        m = finite(reduce_max(m, maxima))
        edge = exponential(edge - m)
        s = edge
        for k in range(SIZE):
            row[k] = exponential(row[k] - m)
            s += row[k]
        scale = ONE / reduce_sum(s, sums)
        for k in range(SIZE):
            row[k] *= scale

        write(out, target, out_step, lane, head, end, row, 0)
        write_edge(out, target, lane, head, end, n, edge * scale)

    return Source(fused, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


def fused_tiling(v: View) -> Tiling | None:
    """16 elements a thread (64 bytes of float32, so 2048 threads keep 128 kB of an SM's loads in flight), 32 where a
    block of 1024 threads needs them and its 64 registers a thread still hold them; float64 half of that."""
    size = 16 * 4 // max(itemsize(v.dtype), 4)
    if v.across:
        return _column_tiling(v, size)
    vec = v.vec
    lanes = min(max(power_of_two(-(-v.n // size)), 32), BLOCK_LIMIT)
    tiles = max(1, -(-(v.n // vec) // lanes))
    return Tiling(lanes, 1, tiles, vec, v.edges) if tiles * vec <= 2 * size else None


def _column_tiling(v: View, size: int) -> Tiling | None:
    """Side by side as many rows as fill a warp, so that it reads 128 bytes of float32; down to a sector of 32 bytes,
    for the sake of longer rows in the block. 512 threads, since each needs an address per load beside its elements."""
    rows = min(32, power_of_two(v.neighbours))
    while rows * itemsize(v.dtype) > 32 and -(-v.n // (512 // rows)) > size:
        rows //= 2
    lanes = min(max(power_of_two(-(-v.n // size)), 128 // rows), 512 // rows)
    tiles = -(-v.n // lanes)
    return Tiling(lanes, rows, tiles, 1, across=True) if tiles <= 2 * size else None


@register("numba", "softmax", "fused")
def fused(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row, the row in registers: read once, written once."""
    return planned(plan_fused, x, out)


def plan_fused(v: View, device: torch.device) -> BindView:
    tiling = fused_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/fused", f"a row of {v.n} elements is more than a block's registers hold"
        )
    return _over_rows("numba/softmax/fused", fused_kernel(v.dtype, tiling), tiling, v, device)


def _over_rows(id: str, source: Source, tiling: Tiling, v: View, device: torch.device) -> BindView:
    """A call with as many blocks as it takes to cover the rows."""
    grid = -(-v.rows // (tiling.rows * tiling.stack))
    if grid > GRID_LIMIT:
        raise UnsupportedProblemError(id, f"{v.rows} rows need {grid} blocks, and a launch has {GRID_LIMIT} at most")
    return prepare(source, device).call(grid, *v.offsets)


# ---------------------------------------------------------------------------------------------------------------------
# multi_row: a warp, or a part of one, per row


@cache
def multi_row_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced. No shared memory."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, _ = running(dtype, tiling.size)
    ROWS, LANES, SIZE, STACK = tiling.rows, tiling.lanes, tiling.size, tiling.stack
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step
    HELD = SIZE * STACK

    def multi_row(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        held = cuda.local.array(HELD, kind)
        edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(1, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + t // GROUP_STEP % ROWS
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            read(x, source, x_step, lane, head, end, held, level * SIZE)
            edges[level] = read_edge(x, source, lane, head, end, length)

        for level in range(STACK):
            m = edges[level]
            for k in range(SIZE):
                m = maximum(m, held[level * SIZE + k])
            m = finite(reduce_max(m, scratch))
            edges[level] = exponential(edges[level] - m)
            s = edges[level]
            for k in range(SIZE):
                held[level * SIZE + k] = exponential(held[level * SIZE + k] - m)
                s += held[level * SIZE + k]
            scale = ONE / reduce_sum(s, scratch)
            edges[level] *= scale
            for k in range(SIZE):
                held[level * SIZE + k] *= scale

        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            write(out, target, out_step, lane, head, end, held, level * SIZE)
            write_edge(out, target, lane, head, end, length, edges[level])

    return Source(multi_row, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


def multi_row_tiling(v: View) -> Tiling | None:
    """Blocks of 256 threads; as few lanes as hold the row in one vector each, a warp at most; about 16 elements a
    thread in flight, over its rows together, up to 32 where a warp's row needs them (float64 half of that)."""
    size = 16 * 4 // max(itemsize(v.dtype), 4)
    if v.across:
        if v.n > 2 * size or v.neighbours < 32:
            return None
        # One thread to a row: neighbours in a warp are neighbours in memory already.
        return Tiling(1, 256, v.n, 1, across=True, stack=max(1, size // power_of_two(v.n)))
    vec = v.vec
    lanes = min(power_of_two(-(-v.n // vec)), 32)
    if v.edges and (2 * vec > lanes or v.n < 8 * vec):  # too short for aligned vectors: lane by lane
        vec, lanes = 1, min(power_of_two(v.n), 32)
    tiles = -(-v.n // (lanes * vec))
    if tiles * vec > 2 * size:
        return None
    return Tiling(lanes, 256 // lanes, tiles, vec, v.edges and vec > 1, stack=max(1, size // power_of_two(tiles * vec)))


@register("numba", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A warp, or the part of one that the row fills, per row, several rows a thread; for short rows."""
    return planned(plan_multi_row, x, out)


def plan_multi_row(v: View, device: torch.device) -> BindView:
    tiling = multi_row_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/multi_row", f"a row of {v.n} elements is more than a warp's registers hold"
        )
    return _over_rows("numba/softmax/multi_row", multi_row_kernel(v.dtype, tiling), tiling, v, device)


# ---------------------------------------------------------------------------------------------------------------------
# persistent: as many blocks as the device holds at once


@cache
def persistent_kernel(dtype: str, tiling: Tiling) -> Source:
    """Program p takes rows p, p + programs, p + 2 programs, ..., and reads the next row before it reduces this one:
    a software pipeline of two stages, both in registers."""
    kind, ONE = WIDE[dtype], one(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, lowest(dtype))
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, _ = running(dtype, tiling.size)
    ROWS, LANES, SIZE, SCRATCH = tiling.rows, tiling.lanes, tiling.size, tiling.scratch
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def persistent(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(SIZE, kind)
        following = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        group = types.int64(t // GROUP_STEP % ROWS)
        stride = types.int64(cuda.gridDim.x) * ROWS
        r0 = types.int64(cuda.blockIdx.x) * ROWS
        length = n if r0 + group < rows else types.int64(0)
        source, target = begin(r0 + group, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        read(x, source, x_step, lane, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, length)
        while r0 < rows:
            next_length = n if r0 + stride + group < rows else types.int64(0)
            next_source, next_target = begin(r0 + stride + group, inner, x_outer, x_inner, out_outer, out_inner)
            next_head, next_end = bounds(phase + next_source, next_length)
            read(x, next_source, x_step, lane, next_head, next_end, following, 0)
            next_edge = read_edge(x, next_source, lane, next_head, next_end, next_length)

            m = edge
            for k in range(SIZE):
                m = maximum(m, row[k])
            m = finite(reduce_max(m, maxima))
            edge = exponential(edge - m)
            s = edge
            for k in range(SIZE):
                row[k] = exponential(row[k] - m)
                s += row[k]
            scale = ONE / reduce_sum(s, sums)
            for k in range(SIZE):
                row[k] *= scale
            write(out, target, out_step, lane, head, end, row, 0)
            write_edge(out, target, lane, head, end, length, edge * scale)

            for k in range(SIZE):
                row[k] = following[k]
            edge, target, head, end, length = next_edge, next_target, next_head, next_end, next_length
            r0 += stride

    return Source(persistent, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


def persistent_tiling(v: View) -> Tiling | None:
    """As for fused, but two rows share the registers, so that a block has 512 threads with up to 128 registers each."""
    size = 16 * 4 // max(itemsize(v.dtype), 4)
    if v.across:
        return _column_tiling(v, size // 4)  # and each load of either row an address
    vec = v.vec
    lanes = min(max(power_of_two(-(-v.n // size)), 128), 512)
    tiles = max(1, -(-(v.n // vec) // lanes))
    return Tiling(lanes, 1, tiles, vec, v.edges) if tiles * vec <= 2 * size else None


@register("numba", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid of SMs times the compiled kernel's occupancy; each block strides over rows, the next one on its way."""
    return planned(plan_persistent, x, out)


def plan_persistent(v: View, device: torch.device) -> BindView:
    tiling = persistent_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/persistent", f"two rows of {v.n} elements are more than a block's registers hold"
        )
    kernel = prepare(persistent_kernel(v.dtype, tiling), device)
    return kernel.call(min(kernel.resident, -(-v.rows // tiling.rows)), *v.offsets)


# ---------------------------------------------------------------------------------------------------------------------
# online: rows of any length, read twice


@cache
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps a running (max, sum) of its share, met once at the end; a second pass reads and writes."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, absorb = running(dtype, tiling.size)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def online(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        r = types.int64(cuda.blockIdx.x) * ROWS + t // GROUP_STEP % ROWS
        if r >= rows:
            n = types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        first = head
        while first < end:
            read(x, source, x_step, lane, first, end, row, 0)
            m, s = absorb(row, m, s)
            first += TILE

        highest = finite(reduce_max(m, maxima))
        s = s * exponential(m - highest)
        scale = ONE / reduce_sum(s, sums)

        first = head
        while first < end:
            read(x, source, x_step, lane, first, end, row, 0)
            for k in range(SIZE):
                row[k] = exponential(row[k] - highest) * scale
            write(out, target, out_step, lane, first, end, row, 0)
            first += TILE
        write_edge(out, target, lane, head, end, n, exponential(edge - highest) * scale)

    return Source(online, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads)


def streaming_tiling(v: View) -> Tiling:
    """A block that goes along a row of any length, up to 512 threads, since they may have 128 registers each. 16
    elements a thread at a time put 64 kB of float32 in flight from two blocks; 4 in float64, whose exponential takes
    registers, and half of that across rows, where each load has an address of its own."""
    size = 16 if itemsize(v.dtype) <= 4 else 4
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(512 // rows, rows, min(size // 2, power_of_two(-(-v.n * rows // 512))), 1, across=True)
    lanes = min(512, max(power_of_two(-(-v.n // size)), 32))
    return Tiling(lanes, 1, min(size // v.vec, power_of_two(-(-v.n // (lanes * v.vec)))), v.vec, v.edges)


@register("numba", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row of any length: a running (max, sum) in one pass, a second pass that writes."""
    return planned(plan_online, x, out)


ONLINE_COLUMNS = 2**22
"""A lane adds up its part of a row in order, in float32 but for float64: with 16777259 columns the sum was 1.7e-4 off
on an H200, more than the contract allows, with 3000017 within it."""


def plan_online(v: View, device: torch.device) -> BindView:
    if v.n > ONLINE_COLUMNS and v.dtype != "float64":
        raise UnsupportedProblemError(
            "numba/softmax/online", f"a running sum in float32 is accurate up to {ONLINE_COLUMNS} columns; got {v.n}"
        )
    tiling = streaming_tiling(v)
    return _over_rows("numba/softmax/online", online_kernel(v.dtype, tiling), tiling, v, device)


# ---------------------------------------------------------------------------------------------------------------------
# split: several blocks on one row


@cache
def cluster_kernel(dtype: str, tiling: Tiling, blocks: int) -> Source:
    """A cluster of blocks holds one row in its registers, read once and written once, and meets in shared memory.

    Each block finds the (max, sum) of its part, and puts the pair into the shared memory of every block of its cluster;
    after one barrier each merges the same pairs in the same order. ``tiling`` is that of one block.
    The same way as Quack's softmax (Dao-AILab/quack).
    """
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, store_to_block

    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    row_tiling = replace(tiling, lanes=tiling.lanes * blocks)
    bounds, read, write, read_edge, write_edge = access(dtype, row_tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, _ = running(dtype, tiling.size)
    LANES, SIZE, SCRATCH, BLOCKS = tiling.lanes, tiling.size, tiling.scratch, blocks

    def cluster(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        cluster_arrive()
        row = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        all_maxima = cuda.shared.array(BLOCKS, kind)
        all_sums = cuda.shared.array(BLOCKS, kind)
        t = types.int64(cuda.threadIdx.x)
        block = types.int64(cuda.blockIdx.x)
        r, rank = block // BLOCKS, block % BLOCKS
        lane = rank * LANES + t
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        read(x, source, x_step, lane, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, n)

        m = edge
        for k in range(SIZE):
            m = maximum(m, row[k])
        m = reduce_max(m, maxima)
        shift = finite(m)
        edge = exponential(edge - shift)
        s = edge
        for k in range(SIZE):
            row[k] = exponential(row[k] - shift)
            s += row[k]
        s = reduce_sum(s, sums)
        cluster_wait()  # the other blocks have begun: their shared memory is there
        if t < BLOCKS:
            store_to_block(all_maxima, rank, m, t)
            store_to_block(all_sums, rank, s, t)
        cluster_arrive()
        cluster_wait()

        highest = LOWEST
        for b in range(BLOCKS):
            highest = maximum(highest, all_maxima[b])
        highest = finite(highest)
        s = all_sums[0] * exponential(all_maxima[0] - highest)
        for b in range(1, BLOCKS):
            s += all_sums[b] * exponential(all_maxima[b] - highest)
        scale = exponential(m - highest) * (ONE / s)
        for k in range(SIZE):
            row[k] *= scale
        write(out, target, out_step, lane, head, end, row, 0)
        write_edge(out, target, lane, head, end, n, edge * scale)

    return Source(cluster, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, cluster=blocks)


def cluster_tiling(v: View) -> tuple[Tiling, int] | None:
    """32 elements a thread, half of it in float64. Two blocks of 512 threads to an SM, so that one reads while the
    other writes; past 8 of them, which is what every device grants to a cluster, blocks of 1024."""
    size = 32 * 4 // max(itemsize(v.dtype), 4)
    if v.across:
        return None
    vectors = max(1, v.n // v.vec)
    for lanes in (512, 1024):
        blocks = max(2, power_of_two(-(-vectors * v.vec // (lanes * size))))
        if blocks <= 8:
            tiles = -(-vectors // (lanes * blocks))
            return Tiling(lanes, 1, tiles, v.vec, v.edges), blocks
    return None


SPLIT_OFFSETS = (types.int64,) * 13  # View.offsets, then chunks, span, first


@cache
def partial_kernel(dtype: str, tiling: Tiling) -> Source:
    """First phase without clusters, or of a row too long for one: the (max, sum) of each chunk of each row."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, absorb = running(dtype, tiling.size)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def partial(
        x, pairs, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + t // GROUP_STEP % ROWS, block % chunks
        length = n if r < rows else types.int64(0)
        source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        edge = LOWEST
        if chunk == 0:
            edge = read_edge(x, source, lane, head, end, length)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, first, last, row, 0)
            m, s = absorb(row, m, s)
            first += TILE
        highest = reduce_max(m, maxima)
        s = reduce_sum(s * exponential(m - finite(highest)), sums)
        if lane == 0 and r < rows:
            pairs[(r * chunks + chunk) * 2] = highest
            pairs[(r * chunks + chunk) * 2 + 1] = s

    return Source(partial, (pointer(dtype), types.CPointer(kind), *SPLIT_OFFSETS), tiling.threads)


@cache
def merge_kernel(dtype: str, tiling: Tiling) -> Source:
    """Second phase: every block merges its row's pairs, the same way as the others, and writes its chunk."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    ZERO = type(ONE)(0)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling)
    finite, _ = running(dtype, tiling.size)
    ROWS, LANES, SIZE, SCRATCH, TILE = tiling.rows, tiling.lanes, tiling.size, tiling.scratch, tiling.tile
    LANE_STEP, GROUP_STEP = tiling.lane_step, tiling.group_step

    def merge(
        x, pairs, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(SIZE, kind)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        t = cuda.threadIdx.x
        lane = types.int64(t // LANE_STEP % LANES)
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + t // GROUP_STEP % ROWS, block % chunks
        length = n if r < rows else types.int64(0)
        m, s = LOWEST, ZERO
        pair = lane if r < rows else chunks
        while pair < chunks:
            part_max, part_sum = pairs[(r * chunks + pair) * 2], pairs[(r * chunks + pair) * 2 + 1]
            grown = maximum(m, part_max)
            s = s * exponential(m - finite(grown)) + part_sum * exponential(part_max - finite(grown))
            m = grown
            pair += LANES
        highest = finite(reduce_max(m, maxima))
        scale = ONE / reduce_sum(s * exponential(m - highest), sums)

        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, first, last, row, 0)
            for k in range(SIZE):
                row[k] = exponential(row[k] - highest) * scale
            write(out, target, out_step, lane, first, last, row, 0)
            first += TILE
        if chunk == 0:
            edge = read_edge(x, source, lane, head, end, length)
            write_edge(out, target, lane, head, end, length, exponential(edge - highest) * scale)

    return Source(merge, (pointer(dtype), types.CPointer(kind), pointer(dtype), *SPLIT_OFFSETS), tiling.threads)


def chunking(v: View, tiling: Tiling) -> tuple[int, int]:
    """``(chunks, span)``: one tile a chunk, which is the finest cut; more where a row would have over 1024 chunks,
    whose pairs every block of the second phase reads."""
    span = tiling.tile * -(-v.n // (tiling.tile * 1024))
    return -(-v.n // span), span


@register("numba", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks per row: a cluster that keeps the row in registers, or two launches over chunks; for long rows."""
    return planned(plan_split, x, out)


def plan_split(v: View, device: torch.device) -> BindView:
    held = cluster_tiling(v) if has_clusters(device) else None
    if held is not None:
        tiling, blocks = held
        if v.rows * blocks <= GRID_LIMIT:
            return prepare(cluster_kernel(v.dtype, tiling, blocks), device).call(v.rows * blocks, *v.offsets)
    tiling = streaming_tiling(v)
    chunks, span = chunking(v, tiling)
    # The second phase reads again what the first has read: from the L2 cache, if the rows in flight fill half of it.
    groups = -(-v.rows // tiling.rows)
    abreast = l2_bytes(device) // 2 // (v.n * itemsize(v.dtype) * tiling.rows)
    abreast = max(1, min(groups, abreast, GRID_LIMIT // chunks))
    partial = prepare(partial_kernel(v.dtype, tiling), device)
    merge = prepare(merge_kernel(v.dtype, tiling), device)
    waves = [
        (partial.call(blocks, *v.offsets, chunks, span, r0), merge.call(blocks, *v.offsets, chunks, span, r0))
        for first in range(0, groups, abreast)
        for blocks, r0 in [(min(abreast, groups - first) * chunks, first * tiling.rows)]
    ]
    accumulate = torch.float64 if v.dtype == "float64" else torch.float32

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(v.rows * chunks * 2, dtype=accumulate, device=device)
        steps = [step for first, second in waves for step in (first(x, pairs), second(x, pairs, out))]

        def launch() -> None:
            for step in steps:
                step()

        return launch

    return bind


# ---------------------------------------------------------------------------------------------------------------------


@register("numba", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return planned(plan_auto, x, out)


def plan_auto(v: View, device: torch.device) -> BindView:
    if multi_row_tiling(v) is not None:
        return plan_multi_row(v, device)
    tiling = fused_tiling(v)
    # Where one block a row would leave most SMs idle, several share it; 4096 elements are not worth the exchange.
    few = v.rows * 2 <= multiprocessors(device) and v.n > 4096
    if tiling is not None and not few and -(-v.rows // tiling.rows) <= GRID_LIMIT:
        return plan_fused(v, device)
    return plan_split(v, device)
