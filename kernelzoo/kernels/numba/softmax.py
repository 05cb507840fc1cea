"""Softmax in Numba CUDA: the same algorithms as in the other languages, over the threads of a block.

A kernel is a Python function whose constants (dtype, tiling) are those of the function around it; Numba compiles one
for each. Rows are read in vectors of 16 bytes where the layout allows (see :mod:`.row`), half precision is computed
in float32, and sums are met in a fixed order, so that the same input gives the same bits.

A row with a NaN or +inf becomes NaN by itself, through its exponentials' sum. The largest of a part that is -inf alone
is replaced by 0 before it is subtracted, or -inf - -inf would make a NaN out of a legal row; where the whole row is
-inf, 0 / 0 is the NaN that is due.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba import softmax_columns
from kernelzoo.kernels.numba.columns import quotient
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import (
    Source,
    has_clusters,
    l2_bytes,
    most_blocks,
    multiprocessors,
    prepare,
    shared_bytes,
)
from kernelzoo.kernels.numba.row import (
    ALIGNED,
    EVERY_LANE,
    WARP,
    Tiling,
    access,
    begin,
    elements,
    exponential,
    machine,
    maximum,
    pointer,
    reductions,
    seating,
    word_type,
)
from kernelzoo.kernels.numba.view import VECTOR_BYTES, BindView, View, planned, power_of_two
from kernelzoo.registry import Launch, register
from kernelzoo.tables import knob, launch_table
from kernelzoo.workspace import owning

GRID_LIMIT = 2**31 - 1  # blocks in a launch
BLOCK_LIMIT = 1024  # threads in a block
OFFSETS = (types.int64,) * 10  # View.offsets


@launch_table("numba", "softmax")
class Knobs:
    """What depends on the card. Shipped values are an H200's."""

    # From 192 vectors on, a block of two warps does better than a warp, but for its edges.
    warp_vectors: int = knob(
        192, among=(64, 128, 192, 256), unit="vectors", why="of the longest row without edges that one warp takes"
    )
    wide_vectors: int = knob(
        1536, among=(1024, 1536, 2048, 4096), unit="vectors", why="of a row, above which a thread has eight, not four"
    )
    packed_vectors: int = knob(
        768,
        among=(512, 768, 1024, 2048),
        unit="vectors",
        why="the same, of packed halves: more arithmetic for as many bytes",
    )
    edge_vectors: int = knob(
        512, among=(256, 512, 1024), unit="vectors", why="the same, with edges, which every thread computes along"
    )
    held_vectors: int = knob(
        2048, among=(2048, 4096, 8192), unit="vectors", why="of the longest row of packed halves that has one block"
    )
    few_vectors: int = knob(
        4096, among=(1024, 2048, 4096), unit="vectors", why="of the longest row that has one block, if rows are few"
    )
    few_rows: int = knob(1, among=(1, 2, 4), unit="rows per SM", why="below which rows are few")
    kept: int = knob(
        12,
        among=(8, 12, 16),
        unit="vectors",
        why="of a thread in a cluster's shared memory, at most: with 12, two blocks of 512 threads have 192 kB",
    )
    kept_rows: int = knob(
        4, among=(1, 4, 16), unit="rows per SM", why="of float32, from which two blocks keep a row so, if they can"
    )
    cluster_threads: int = knob(
        288,
        among=(160, 224, 288, 384, 512),
        unit="threads",
        why="of a cluster's blocks, above which there are twice as many: smaller ones, of which an SM has several",
    )
    grid_vectors: int = knob(
        4096,
        among=(2048, 4096, 8192),
        unit="vectors",
        why="of a row, above which the whole grid takes it, if rows are few",
    )
    l2_percent: int = knob(
        50, among=(25, 50, 75), unit="% of the L2", why="that the rows under way fill, where a row is read twice"
    )


@cache
def arithmetic(dtype: str, vec: int, words: int) -> tuple[Any, Any, Any, Any, Any]:
    """``finite``, ``top``, ``total``, ``finish``, ``rescale``: what a thread does with ``words`` registers of a row.

    ``finite(m)`` is what to subtract for a largest value of m: m, but 0 for -inf.
    ``top(row, k)`` is the largest of the elements in ``row[k : k + words]``, a NaN dropped.
    ``total(row, k, shift)`` is the sum of exp(element - shift).
    ``finish(row, k, shift, scale)`` makes the elements results. A dtype as wide as its arithmetic keeps the
    exponentials of ``total`` in place of the elements, and multiplies them by ``scale`` alone. A packed half has no
    room for them unrounded: it takes exp(element - shift) again, of any shift.
    ``rescale(own, shift, scale)`` is the scale to finish with if the largest value turns out to be ``shift``, and
    ``total`` was taken with ``finite(own)``: 0 for what is -inf alone, so that it stays 0 with any shift.
    """
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)
    finite = softmax_columns.finite_of(dtype)

    if machine.is_packed(dtype, vec):
        low, high, pair, larger, _ = machine.word_functions(dtype)
        keep = machine.keep

        @cuda.jit(device=True, inline="always")
        def top(row, k):
            m = row[k]
            for j in range(1, words):
                m = larger(m, row[k + j])
            return maximum(low(m), high(m))

        @cuda.jit(device=True, inline="always")
        def total(row, k, shift):
            s, other = ZERO, ZERO
            for j in range(words):
                word = keep(row[k + j])
                s += exponential(low(word) - shift)
                other += exponential(high(word) - shift)
            return s + other

        @cuda.jit(device=True, inline="always")
        def finish(row, k, shift, scale):
            for j in range(words):
                word = keep(row[k + j])
                row[k + j] = pair(exponential(low(word) - shift) * scale, exponential(high(word) - shift) * scale)

        @cuda.jit(device=True, inline="always")
        def rescale(own, shift, scale):
            return scale

        return finite, top, total, finish, rescale

    @cuda.jit(device=True, inline="always")
    def wide_top(row, k):
        m = row[k]
        for j in range(1, words):
            m = maximum(m, row[k + j])
        return m

    @cuda.jit(device=True, inline="always")
    def wide_total(row, k, shift):
        s = ZERO
        for j in range(words):
            row[k + j] = exponential(row[k + j] - shift)
            s += row[k + j]
        return s

    @cuda.jit(device=True, inline="always")
    def wide_finish(row, k, shift, scale):
        for j in range(words):
            row[k + j] *= scale

    @cuda.jit(device=True, inline="always")
    def wide_rescale(own, shift, scale):
        return exponential(own - shift) * scale

    return finite, wide_top, wide_total, wide_finish, wide_rescale


# ---------------------------------------------------------------------------------------------------------------------
# fused: the row stays in registers


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """One group of threads per row, which it reads once, keeps in registers, and writes once."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def fused(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)  # threads without a row go along, for the reductions need whole warps
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        read(x, source, x_step, lane, lanes, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, n)

        m = finite(reduce_max(maximum(top(row, 0), edge), maxima))
        edge = exponential(edge - m)
        s = edge + total(row, 0, m)
        scale = ONE / reduce_sum(s, sums)
        finish(row, 0, m, scale)

        write(out, target, out_step, lane, lanes, head, end, row, 0)
        write_edge(out, target, lane, head, end, n, edge * scale)

    return Source(fused, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling))


def fused_tiling(v: View, knobs: Knobs) -> Tiling | None:
    """Four vectors of 16 bytes a thread, so that 2048 threads keep 128 kB of an SM's loads in flight; fewer for short
    rows, eight where the row needs them. Of up to 512 threads an SM runs two blocks then."""
    if v.across:
        return _column_tiling(v, 16 * 4 // max(itemsize(v.dtype), 4))
    tiles = _tiles(v, BLOCK_LIMIT, knobs)
    return None if tiles is None else Tiling(BLOCK_LIMIT, 1, tiles, v.vec, v.edges, flexible=True)


def _tiles(v: View, threads: int, knobs: Knobs) -> int | None:
    """Vectors for each of up to ``threads`` threads; None if the row is too long for that.

    Of packed halves eight pay off sooner, and sooner still where rows have edges; soonest in float64, where the threads
    of a row agree on its maximum and sum as often for two exponentials as for sixteen. Vectors below 16 bytes, which an
    unaligned layout has, leave room for twice as many.
    """
    vectors = max(1, v.n // v.vec)
    if v.dtype == "float64" and v.vec > 1 and vectors <= threads * 8:
        return 4 if vectors <= 256 else 8
    if vectors <= 128:
        return 1 if vectors <= 64 else 2
    packed = knobs.edge_vectors if v.edges else knobs.packed_vectors
    if vectors <= min(4 * threads, knobs.wide_vectors if itemsize(v.dtype) > 2 else packed):
        return 4
    most = 8 if v.vec * itemsize(v.dtype) == VECTOR_BYTES else 16
    return most if vectors <= threads * most else None


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
    return planned(plan_fused, Knobs, x, out)


def plan_fused(v: View, device: torch.device, knobs: Knobs) -> BindView:
    by_columns = softmax_columns.on_columns(v, device, 1, alone=True)
    if by_columns is not None:
        return by_columns
    tiling = fused_tiling(v, knobs)
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
    return prepare(source, device).call(grid, *v.offsets, threads=tiling.lanes_for(v.n) * tiling.rows)


# ---------------------------------------------------------------------------------------------------------------------
# multi_row: a warp, or a part of one, per row


@cache
def multi_row_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced. No shared memory."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, STACK = tiling.rows, tiling.stack
    HELD = WORDS * STACK

    def multi_row(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(1, kind)
        lane, lanes, group = seat()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            read(x, source, x_step, lane, lanes, head, end, held, level * WORDS)
            edges[level] = read_edge(x, source, lane, head, end, length)

        for level in range(STACK):
            m = finite(reduce_max(maximum(top(held, level * WORDS), edges[level]), scratch))
            edges[level] = exponential(edges[level] - m)
            scale = ONE / reduce_sum(edges[level] + total(held, level * WORDS, m), scratch)
            edges[level] *= scale
            finish(held, level * WORDS, m, scale)

            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            write(out, target, out_step, lane, lanes, head, end, held, level * WORDS)
            write_edge(out, target, lane, head, end, length, edges[level])

    return Source(multi_row, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling))


@cache
def multi_row_tile_kernel(dtype: str, lanes: int, items: int) -> Source:
    """A block takes consecutive rows of up to ``lanes * items`` elements, ``lanes`` threads each, by shared memory.

    Rows whose length is no multiple of a vector begin anywhere between two boundaries of 16 bytes, but as one piece of
    memory they are copied whole, without a register. A thread then finds its row some odd number of elements from its
    neighbours', so that the banks of shared memory seldom collide.
    """
    kind, storage = WIDE[dtype], STORAGE[dtype]
    LOWEST: Any = lowest(dtype)
    ZERO, ONE = type(LOWEST)(0), type(LOWEST)(1)
    load, store = elements(dtype)
    copy_in, wait_copies, copy_out, widened, set_narrow = machine.tile_functions(dtype)
    VEC, THREADS = VECTOR_BYTES // itemsize(dtype), TILE_THREADS
    LANES, ROWS, ITEMS, SURE = lanes, TILE_THREADS // lanes, items, items - TILE_STEP
    HELD, STEPS, FIRST = TILE_THREADS * items + VEC, lanes.bit_length() - 1, lanes // 2

    def multi_row_tile(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        tile = cuda.shared.array(HELD, storage, ALIGNED)
        row = cuda.local.array(ITEMS, kind)
        t = types.int64(cuda.threadIdx.x)
        lane = t % LANES
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
            j += THREADS
        if t < head:
            set_narrow(tile, begins + t, load(x, base + t))
        if tail + t < count:
            set_narrow(tile, begins + tail + t, load(x, base + tail + t))
        wait_copies()
        cuda.syncthreads()

        at = begins + t // LANES * n + lane
        left = n - lane  # threads past the last row go along, for the shuffles, over what no one copies out
        m = LOWEST
        for i in range(ITEMS):
            row[i] = LOWEST
            if i < SURE or i * LANES < left:
                row[i] = widened(tile, at + i * LANES)
            m = maximum(m, row[i])
        for step in range(STEPS):
            m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, FIRST >> step))
        shift = m if m > LOWEST else ZERO
        s, part = ZERO, ZERO
        for i in range(ITEMS):
            row[i] = exponential(row[i] - shift)
            part += row[i]  # of eight: one sum of equal terms, all rounded the same way, would be off too far
            if i % 8 == 7 or i + 1 == ITEMS:
                s += part
                part = ZERO
        for step in range(STEPS):
            s += cuda.shfl_xor_sync(EVERY_LANE, s, FIRST >> step)
        scale = ONE / s
        for i in range(ITEMS):
            if i < SURE or i * LANES < left:
                set_narrow(tile, at + i * LANES, row[i] * scale)
        cuda.syncthreads()

        j = t
        while j < vectors:
            copy_out(tile, begins + head + j * VEC, out, base + head + j * VEC)
            j += THREADS
        if t < head:
            store(out, base + t, widened(tile, begins + t))
        if tail + t < count:
            store(out, base + tail + t, widened(tile, begins + tail + t))

    # Seven blocks an SM leave a thread 72 registers, for 40 elements and the rest; five leave 96, for 64.
    blocks = 7 if items <= 40 else 5
    arguments = (pointer(dtype), pointer(dtype), *OFFSETS)
    return Source(multi_row_tile, arguments, TILE_THREADS, (dtype, lanes, items), blocks)


STACKED_BLOCKS = 4  # on an SM: a thread takes several rows only where there are as many blocks all the same
TILE_THREADS = 128
TILE_STEP = 8  # row lengths share a kernel in steps of so many elements a thread
TILE_ITEMS = 64  # what a thread's registers hold beside the rest; of float64 a quarter, for its exponential takes many
TILE_LANES = 2  # rows of over 128 elements have lanes and vectors enough


def tile_shape(v: View) -> tuple[int, int] | None:
    """``(lanes, items)`` of the kernel above, or None where that is not the one to take."""
    whole = v.vec == VECTOR_BYTES // itemsize(v.dtype)
    limit = TILE_ITEMS // 4 if v.dtype == "float64" else TILE_ITEMS
    if not (v.edges and v.one_piece and whole):
        return None
    lanes = power_of_two(-(-v.n // limit))
    items = -(-v.n // (lanes * TILE_STEP)) * TILE_STEP
    return (lanes, items) if lanes <= TILE_LANES else None


def multi_row_tiling(v: View) -> Tiling | None:
    """Blocks of 128 threads; a warp to a row of over 64 vectors, half a warp to a shorter one: fewer lanes with more
    vectors each shuffle less. About four vectors a thread in flight, over its rows together, up to eight where a warp's
    row needs them; of float64, for whose exponentials fewer lanes do better, four to a lane at least."""
    size = 16 * 4 // max(itemsize(v.dtype), 4)
    if v.across:
        if v.n > 2 * size or v.neighbours < 32:
            return None
        # One thread to a row: neighbours in a warp are neighbours in memory already.
        return Tiling(1, 256, v.n, 1, across=True, stack=max(1, size // power_of_two(v.n)))
    vec = v.vec
    if v.edges and v.n < 4 * vec:  # too short for aligned vectors: lane by lane
        vec = 1
    vectors = max(1, v.n // vec)
    lanes = min(power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    double = v.dtype == "float64" and vec > 1
    if double:
        lanes = min(power_of_two(-(-vectors // 4)), WARP)
    if v.edges and vec > 1:
        lanes = max(lanes, min(2 * vec, WARP))  # an edge element each
    tiles = power_of_two(-(-vectors // lanes))
    deep = 8 if double else 4 if vec * itemsize(v.dtype) == VECTOR_BYTES else max(1, size // vec)
    if tiles > (8 if double else 2 * deep):
        return None
    return Tiling(lanes, 128 // lanes, tiles, vec, v.edges and vec > 1, stack=max(1, deep // tiles))


@register("numba", "softmax", "multi_row")
def multi_row(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A warp, or the part of one that the row fills, per row, several rows a thread; for short rows."""
    return planned(plan_multi_row, Knobs, x, out)


def plan_multi_row(v: View, device: torch.device, knobs: Knobs) -> BindView:
    shape = tile_shape(v)
    if shape is not None:
        grid = -(-v.rows // (TILE_THREADS // shape[0]))
        if grid <= GRID_LIMIT:
            return prepare(multi_row_tile_kernel(v.dtype, *shape), device).call(grid, *v.offsets)
    tiling = multi_row_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/multi_row", f"a row of {v.n} elements is more than a warp's registers hold"
        )
    tiling = tiling.spread_over(v.rows, STACKED_BLOCKS * multiprocessors(device))
    return _over_rows("numba/softmax/multi_row", multi_row_kernel(v.dtype, tiling), tiling, v, device)


# ---------------------------------------------------------------------------------------------------------------------
# persistent: as many blocks as the device holds at once


@cache
def persistent_kernel(dtype: str, tiling: Tiling) -> Source:
    """Program p takes rows p, p + programs, p + 2 programs, ..., and reads the next row before it reduces this one:
    a software pipeline of two stages, both in registers."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def persistent(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        following = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        stride = types.int64(cuda.gridDim.x) * ROWS
        r0 = types.int64(cuda.blockIdx.x) * ROWS
        length = n if r0 + group < rows else types.int64(0)
        source, target = begin(r0 + group, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        read(x, source, x_step, lane, lanes, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, length)
        while r0 < rows:
            next_length = n if r0 + stride + group < rows else types.int64(0)
            next_source, next_target = begin(r0 + stride + group, inner, x_outer, x_inner, out_outer, out_inner)
            next_head, next_end = bounds(phase + next_source, next_length)
            read(x, next_source, x_step, lane, lanes, next_head, next_end, following, 0)
            next_edge = read_edge(x, next_source, lane, next_head, next_end, next_length)

            # Either barrier parts the other's scratch memory from the next row's.
            m = finite(reduce_max(maximum(top(row, 0), edge), maxima))
            edge = exponential(edge - m)
            scale = ONE / reduce_sum(edge + total(row, 0, m), sums)
            finish(row, 0, m, scale)
            write(out, target, out_step, lane, lanes, head, end, row, 0)
            write_edge(out, target, lane, head, end, length, edge * scale)

            for k in range(WORDS):
                row[k] = following[k]
            edge, target, head, end, length = next_edge, next_target, next_head, next_end, next_length
            r0 += stride

    return Source(persistent, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling))


def persistent_tiling(v: View, knobs: Knobs) -> Tiling | None:
    """As for fused, but two rows share the registers, so that a block has 512 threads with up to 128 registers each."""
    if v.across:
        return _column_tiling(v, 4 * 4 // max(itemsize(v.dtype), 4))  # and each load of either row an address
    tiles = _tiles(v, 512, knobs)
    return None if tiles is None else Tiling(512, 1, tiles, v.vec, v.edges, flexible=True)


@register("numba", "softmax", "persistent")
def persistent(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """A grid of SMs times the compiled kernel's occupancy; each block strides over rows, the next one on its way."""
    return planned(plan_persistent, Knobs, x, out)


def plan_persistent(v: View, device: torch.device, knobs: Knobs) -> BindView:
    tiling = persistent_tiling(v, knobs)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/persistent", f"two rows of {v.n} elements are more than a block's registers hold"
        )
    kernel = prepare(persistent_kernel(v.dtype, tiling), device)
    threads = tiling.lanes_for(v.n) * tiling.rows
    return kernel.call(min(kernel.resident(threads), -(-v.rows // tiling.rows)), *v.offsets, threads=threads)


# ---------------------------------------------------------------------------------------------------------------------
# online: rows of any length, read twice


@cache
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps a running (max, sum) of its share, met once at the end; a second pass reads and writes."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def online(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            grown = maximum(m, top(row, 0))
            s = s * exponential(m - finite(grown)) + total(row, 0, finite(grown))
            m = grown
            first += lanes * SIZE

        highest = finite(reduce_max(m, maxima))
        scale = ONE / reduce_sum(s * exponential(m - highest), sums)

        # Backwards: what was read last is the likeliest to be in a cache still.
        while first > head:
            first -= lanes * SIZE
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            total(row, 0, highest)
            finish(row, 0, highest, scale)
            write(out, target, out_step, lane, lanes, first, end, row, 0)
        write_edge(out, target, lane, head, end, n, exponential(edge - highest) * scale)

    return Source(online, (pointer(dtype), pointer(dtype), *OFFSETS), tiling.threads, (dtype, tiling))


def streaming_tiling(v: View) -> Tiling:
    """A block that goes along a row of any length, up to 512 threads with four vectors each in flight, of which an SM
    runs two or more; 4 elements in float64, whose exponential takes registers, and half of that across rows, where each
    load has an address of its own."""
    size = 16 if itemsize(v.dtype) <= 4 else 4
    if v.across:
        rows = min(32, power_of_two(v.neighbours))
        return Tiling(512 // rows, rows, min(size // 2, power_of_two(-(-v.n * rows // 512))), 1, across=True)
    tiles = size // v.vec if v.dtype == "float64" else 4 if v.vec * itemsize(v.dtype) == VECTOR_BYTES else 16 // v.vec
    return Tiling(512, 1, tiles, v.vec, v.edges, flexible=True)


@register("numba", "softmax", "online")
def online(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """One block per row of any length: a running (max, sum) in one pass, a second pass that writes."""
    return planned(plan_online, Knobs, x, out)


ONLINE_COLUMNS = 2**22
"""A lane adds up its part of a row in order, in float32 but for float64: with 16777259 columns the sum was 1.7e-4 off
on an H200, more than the contract allows, with 3000017 within it."""


def plan_online(v: View, device: torch.device, knobs: Knobs) -> BindView:
    if v.n > ONLINE_COLUMNS and v.dtype != "float64":
        raise UnsupportedProblemError(
            "numba/softmax/online", f"a running sum in float32 is accurate up to {ONLINE_COLUMNS} columns; got {v.n}"
        )
    tiling = streaming_tiling(v)
    return _over_rows("numba/softmax/online", online_kernel(v.dtype, tiling), tiling, v, device)


# ---------------------------------------------------------------------------------------------------------------------
# split: several blocks on one row


def _warp_pair(finite: Any) -> Any:
    """``warp_pair(m, s)``: the pair of a warp's 32 pairs, the same bits in every lane."""

    @cuda.jit(device=True, inline="always")
    def warp_pair(m, s):
        own = m
        for step in range(5):
            m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, 16 >> step))
        s *= exponential(own - finite(m))
        for step in range(5):
            s += cuda.shfl_xor_sync(EVERY_LANE, s, 16 >> step)
        return m, s

    return warp_pair


@cache
def holding(dtype: str, tiling: Tiling, *, plain: bool = False) -> tuple[Any, Any, Any, Any]:
    """``start``, ``take``, ``meet``, ``write_kept``: a block's share of a row, on chip from its one reading on.

    Each thread has ``tiling.tiles`` vectors in registers, and ``kept`` more in ``memory``, which is shared memory that
    it alone reads back. ``start(x, source, t, threads, first, last, memory, kept)`` has the latter copied;
    ``take(memory, t, threads, first, last, kept, m, s)`` takes them into the running pair.
    ``meet(maxima, sums, count)`` is the pair of so many in memory, by each warp alike; ``write_kept(...)`` writes the
    results of what was kept, of a thread that ``take`` gave the maximum ``own``: to be the first to leave the L2 cache,
    unless ``plain``. In float64, whose exponential is long, ``take`` finds the maximum first, and leaves the
    exponentials in place of the elements.
    """
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)
    VEC, TILES = tiling.vec, tiling.tiles
    WORD, WORDS = word_type(dtype, VEC), tiling.words(dtype) // TILES
    ONCE = dtype == "float64"
    finite, top, total, finish, rescale = arithmetic(dtype, VEC, WORDS)
    _, store_vector = machine.vector_functions(dtype, VEC, kept=plain)
    copy_in, wait_copies, _, _, set_element = machine.tile_functions(dtype)
    load_tile = machine.tile_vector(dtype)
    warp_pair = _warp_pair(finite)

    @cuda.jit(device=True, inline="always")
    def start(x, source, t, threads, first, last, memory, kept):
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                copy_in(x, source + i, memory, (k * threads + t) * VEC)
            i += threads * VEC

    @cuda.jit(device=True, inline="always")
    def take(memory, t, threads, first, last, kept, m, s):
        vector = cuda.local.array(WORDS, WORD)
        wait_copies()
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_tile(memory, (k * threads + t) * VEC, vector, 0)
                grown = maximum(m, top(vector, 0))
                s = s * exponential(m - finite(grown)) + total(vector, 0, finite(grown))
                m = grown
            i += threads * VEC
        return m, s

    @cuda.jit(device=True, inline="always")
    def take_once(memory, t, threads, first, last, kept, m, s):
        vector = cuda.local.array(WORDS, WORD)
        wait_copies()
        grown = m
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_tile(memory, (k * threads + t) * VEC, vector, 0)
                grown = maximum(grown, top(vector, 0))
            i += threads * VEC
        shift = finite(grown)
        s *= exponential(m - shift)
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_tile(memory, (k * threads + t) * VEC, vector, 0)
                s += total(vector, 0, shift)
                for j in range(VEC):
                    set_element(memory, (k * threads + t) * VEC + j, vector[j])
            i += threads * VEC
        return grown, s

    @cuda.jit(device=True, inline="always")
    def meet(maxima, sums, count):
        lane = types.int64(cuda.threadIdx.x % WARP)
        m = LOWEST
        i = lane
        while i < count:
            m = maximum(m, maxima[i])
            i += WARP
        shift = finite(m)
        s = ZERO
        i = lane
        while i < count:
            s += sums[i] * exponential(maxima[i] - shift)
            i += WARP
        return warp_pair(m, s)

    @cuda.jit(device=True, inline="always")
    def write_kept(memory, out, target, t, threads, first, last, kept, own, shift, scale):
        vector = cuda.local.array(WORDS, WORD)
        if ONCE:
            scale = rescale(own, shift, scale)
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_tile(memory, (k * threads + t) * VEC, vector, 0)
                if not ONCE:
                    total(vector, 0, shift)
                finish(vector, 0, shift, scale)
                store_vector(out, target + i, vector, 0, True)
            i += threads * VEC

    return start, take_once if ONCE else take, meet, write_kept


CLUSTER_OFFSETS = (types.int64,) * 13  # View.offsets, then blocks, share, kept
MOST_BLOCKS = 16  # in a cluster, where there are most; 8 are what every device grants
MOST_WARPS = 32


@cache
def cluster_kernel(dtype: str, tiling: Tiling) -> Source:
    """A row on chip in a cluster of ``blocks`` blocks, ``share`` elements each: read once, and written once.

    Each warp sends its (max, sum) pair to the shared memory of every block of its cluster; once all have come, each
    block merges the same pairs in the same order. The same way as Quack's softmax (Dao-AILab/quack).
    """
    from kernelzoo.kernels.numba.cluster import cluster_arrive, cluster_wait, send, wait_for

    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS, NUMBERS = word_type(dtype, tiling.vec), tiling.words(dtype), 2 * MOST_BLOCKS * MOST_WARPS
    PAIR_BYTES = 2 * kind.bitwidth // 8
    storage = STORAGE[dtype]
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    finite, top, total, finish, rescale = arithmetic(dtype, tiling.vec, WORDS)
    start, take, meet, write_kept = holding(dtype, tiling, plain=True)
    warp_pair = _warp_pair(finite)

    def cluster(
        x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, blocks, share, kept
    ):
        row = cuda.local.array(WORDS, WORD)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        barrier = cuda.shared.array(1, types.int64)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        warps = threads // WARP
        if blocks > 1:
            cluster_arrive(barrier, blocks * warps * PAIR_BYTES)
        block = types.int64(cuda.blockIdx.x)
        r = quotient(block, blocks)
        rank = block - r * blocks
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        first = head + rank * share
        last = min(first + share, end)
        read(x, source, x_step, t, threads, first, last, row, 0)
        start(x, source, t, threads, first, last, memory, kept)
        edge = LOWEST
        if rank == 0:
            edge = read_edge(x, source, t, head, end, n)

        held_top = maximum(top(row, 0), edge)
        own = finite(held_top)
        m, s = take(memory, t, threads, first, last, kept, held_top, total(row, 0, own) + exponential(edge - own))
        thread_top = m
        m, s = warp_pair(m, s)
        place = 2 * (rank * warps + t // WARP)
        if blocks > 1:
            cluster_wait()  # the other blocks have begun: their shared memory is there
            if t % WARP < blocks:
                send(pairs, place, (m, s), barrier, t % WARP)
            wait_for(barrier)
        else:
            if t % WARP == 0:
                pairs[place], pairs[place + 1] = m, s
            cuda.syncthreads()

        m, s = meet(pairs[0::2], pairs[1::2], blocks * warps)
        shift, scale = finite(m), ONE / s
        finish(row, 0, shift, rescale(held_top, shift, scale))
        write(out, target, out_step, t, threads, first, last, row, 0)
        write_kept(memory, out, target, t, threads, first, last, kept, thread_top, shift, scale)
        if rank == 0:
            write_edge(out, target, t, head, end, n, exponential(edge - shift) * scale)

    return Source(cluster, (pointer(dtype), pointer(dtype), *CLUSTER_OFFSETS), tiling.threads, (dtype, tiling))


GRID_OFFSETS = (types.int64,) * 13  # View.offsets, then chunks, share, kept


@cache
def grid_kernel(dtype: str, tiling: Tiling) -> Source:
    """As cluster_kernel, for blocks anywhere on the device, all of which run at once (a co-operative launch).

    ``chunks`` blocks leave their pairs in memory and wait for each other at a counter, which only ever grows. What is
    held neither in registers nor in shared memory is read a second time, from the L2 cache with luck.
    """
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS, SIZE, VEC = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.vec
    storage = STORAGE[dtype]
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    finite, top, total, finish, rescale = arithmetic(dtype, tiling.vec, WORDS)
    start, take, meet, write_kept = holding(dtype, tiling)
    warp_pair = _warp_pair(finite)
    count_up, seen = machine.count_up, machine.seen

    def grid(
        x,
        pairs,
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
        share,
        kept,
    ):
        row = cuda.local.array(WORDS, WORD)
        batch = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(MOST_WARPS, kind)
        sums = cuda.shared.array(MOST_WARPS, kind)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        block = types.int64(cuda.blockIdx.x)
        groups = types.int64(cuda.gridDim.x) // chunks
        r, chunk = block // chunks, block % chunks
        while r < rows:
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, n)
            first = head + chunk * share
            last = min(first + share, end)
            beyond = first + threads * (SIZE + kept * VEC)
            read(x, source, x_step, t, threads, first, last, row, 0)
            start(x, source, t, threads, first, last, memory, kept)
            edge = LOWEST
            if chunk == 0:
                edge = read_edge(x, source, t, head, end, n)
            held_top = maximum(top(row, 0), edge)
            own = finite(held_top)
            m, s = take(memory, t, threads, first, last, kept, held_top, total(row, 0, own) + exponential(edge - own))
            thread_top = m
            i = beyond
            while i < last:
                read(x, source, x_step, t, threads, i, last, batch, 0)
                grown = maximum(m, top(batch, 0))
                s = s * exponential(m - finite(grown)) + total(batch, 0, finite(grown))
                m = grown
                i += threads * SIZE

            m, s = warp_pair(m, s)
            if t % WARP == 0:
                maxima[t // WARP] = m
                sums[t // WARP] = s
            cuda.syncthreads()
            if t < WARP:
                m, s = meet(maxima, sums, threads // WARP)
                if t == 0:
                    place = (r * chunks + chunk) * 2
                    pairs[place] = m
                    pairs[place + 1] = s
                    before = count_up(counters, r)
                    complete = (before // chunks + 1) * chunks
                    while seen(counters, r) < complete:
                        pass
            cuda.syncthreads()
            m, s = LOWEST, exponential(LOWEST)
            i = t % WARP
            while i < chunks:
                part_max, part_sum = pairs[(r * chunks + i) * 2], pairs[(r * chunks + i) * 2 + 1]
                grown = maximum(m, part_max)
                s = s * exponential(m - finite(grown)) + part_sum * exponential(part_max - finite(grown))
                m = grown
                i += WARP
            m, s = warp_pair(m, s)
            shift, scale = finite(m), ONE / s

            finish(row, 0, shift, rescale(held_top, shift, scale))
            write(out, target, out_step, t, threads, first, last, row, 0)
            write_kept(memory, out, target, t, threads, first, last, kept, thread_top, shift, scale)
            i = beyond
            while i < last:
                read(x, source, x_step, t, threads, i, last, batch, 0)
                total(batch, 0, shift)
                finish(batch, 0, shift, scale)
                write(out, target, out_step, t, threads, i, last, batch, 0)
                i += threads * SIZE
            if chunk == 0:
                write_edge(out, target, t, head, end, n, exponential(edge - shift) * scale)
            r += groups

    arguments = (pointer(dtype), types.CPointer(kind), types.CPointer(types.int64), pointer(dtype), *GRID_OFFSETS)
    return Source(grid, arguments, tiling.threads, (dtype, tiling))


SPLIT_OFFSETS = (types.int64,) * 13  # View.offsets, then chunks, span, first


@cache
def partial_kernel(dtype: str, tiling: Tiling) -> Source:
    """First of two launches, where a row can't stay on chip: the (max, sum) of each chunk of each row."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, _, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def partial(
        x, pairs, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + group, block % chunks
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
            read(x, source, x_step, lane, lanes, first, last, row, 0)
            grown = maximum(m, top(row, 0))
            s = s * exponential(m - finite(grown)) + total(row, 0, finite(grown))
            m = grown
            first += lanes * SIZE
        highest = reduce_max(m, maxima)
        s = reduce_sum(s * exponential(m - finite(highest)), sums)
        if lane == 0 and r < rows:
            pairs[(r * chunks + chunk) * 2] = highest
            pairs[(r * chunks + chunk) * 2 + 1] = s

    return Source(partial, (pointer(dtype), types.CPointer(kind), *SPLIT_OFFSETS), tiling.threads, (dtype, tiling))


@cache
def merge_kernel(dtype: str, tiling: Tiling) -> Source:
    """Second of them: every block merges its row's pairs, the same way as the others, and writes its chunk."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    ZERO = type(ONE)(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, _, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def merge(
        x, pairs, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + group, block % chunks
        length = n if r < rows else types.int64(0)
        m, s = LOWEST, ZERO
        pair = lane if r < rows else chunks
        while pair < chunks:
            part_max, part_sum = pairs[(r * chunks + pair) * 2], pairs[(r * chunks + pair) * 2 + 1]
            grown = maximum(m, part_max)
            s = s * exponential(m - finite(grown)) + part_sum * exponential(part_max - finite(grown))
            m = grown
            pair += lanes
        highest = finite(reduce_max(m, maxima))
        scale = ONE / reduce_sum(s * exponential(m - highest), sums)

        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, lanes, first, last, row, 0)
            total(row, 0, highest)
            finish(row, 0, highest, scale)
            write(out, target, out_step, lane, lanes, first, last, row, 0)
            first += lanes * SIZE
        if chunk == 0:
            edge = read_edge(x, source, lane, head, end, length)
            write_edge(out, target, lane, head, end, length, exponential(edge - highest) * scale)

    return Source(
        merge, (pointer(dtype), types.CPointer(kind), pointer(dtype), *SPLIT_OFFSETS), tiling.threads, (dtype, tiling)
    )


def chunking(v: View, tiling: Tiling) -> tuple[int, int]:
    """``(chunks, span)``: one tile a chunk, which is the finest cut; more where a row would have over 1024 chunks,
    whose pairs every block of the second phase reads."""
    tile = tiling.lanes_for(v.n) * tiling.size
    span = tile * -(-v.n // (tile * 1024))
    return -(-v.n // span), span


@register("numba", "softmax", "split")
def split(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """Several blocks share a row, which stays on chip: a cluster, the grid for longer rows; or else two launches."""
    return planned(plan_split, Knobs, x, out)


HELD = 8  # vectors that a thread of 512 has in registers in grid_kernel, and of up to 1024 in cluster_kernel


def cluster_shape(v: View, processors: int, shared: int, knobs: Knobs) -> tuple[int, int, int] | None:
    """``(blocks, threads, tiles)`` of a cluster for a row, or None where one can't hold it or wins nothing.

    As few blocks of moderate size as hold the row in registers, 8 vectors a thread: of small blocks a multiprocessor
    has several, of which some read while others meet or write. Of float32, many rows that two blocks of 512 threads
    hold with the help of shared memory are faster so; and float64, whose exponential takes the registers, always is.
    """
    vectors = max(1, v.n // v.vec)
    fit = (shared - 2 * MOST_BLOCKS * MOST_WARPS * 8) // (512 * VECTOR_BYTES)  # beside the pairs of all warps
    large = -(-vectors // (512 * (4 + min(fit, knobs.kept))))
    many = v.rows >= knobs.kept_rows * processors
    if itemsize(v.dtype) <= 4 and not (itemsize(v.dtype) == 4 and large <= 2 and many):
        blocks = next((c for c in (2, 4, 8) if vectors <= c * knobs.cluster_threads * HELD), MOST_BLOCKS)
        threads = -(-vectors // (blocks * HELD * WARP)) * WARP
        if threads <= 512:
            return blocks, threads, HELD
    # Few rows are for the grid. Of float64 rather than for clusters of 16: on an H200 (16, 262144) takes 36.5 us by the
    # grid, and 47.0 by those; (8, 250000) 19.2 and 30.6.
    for_grid = 2 if itemsize(v.dtype) == 8 and large >= MOST_BLOCKS else 1
    if large * v.rows <= for_grid * processors:
        if vectors > knobs.grid_vectors:
            return None
        large = 4  # short enough for that to beat the way through memory that the grid goes
    blocks = max(2 if vectors > 2048 and v.rows <= 2 * processors else 1, large)
    if blocks > MOST_BLOCKS and -(-vectors // (512 * MOST_BLOCKS)) > 4 + fit:
        return None
    return (min(blocks, MOST_BLOCKS), 512, 4) if blocks <= MOST_BLOCKS + 1 else None


def grid_shape(v: View, processors: int, shared: int) -> tuple[int, int]:
    """``(chunks, threads)``: all SMs on the rows there are; of more rows, some in turn on as many SMs as hold one."""
    vectors, threads = max(1, v.n // v.vec), 512
    capacity = threads * HELD + shared // VECTOR_BYTES
    chunks = processors // v.rows if v.rows <= processors else min(processors, -(-vectors // capacity))
    return min(chunks, max(1, vectors // threads)), threads


def plan_split(v: View, device: torch.device, knobs: Knobs) -> BindView:
    if has_clusters(device) and not v.across and v.vec * itemsize(v.dtype) == VECTOR_BYTES:
        shape = cluster_shape(v, multiprocessors(device), shared_bytes(device), knobs)
        if shape is not None and shape[0] <= most_blocks(device) and v.rows * shape[0] <= GRID_LIMIT:
            return _on_cluster(v, device, *shape)
        return _on_grid(v, device, *grid_shape(v, multiprocessors(device), shared_bytes(device)))
    by_columns = softmax_columns.on_columns(v, device, most_blocks(device))
    if by_columns is not None:
        return by_columns
    tiling = streaming_tiling(v)
    chunks, span = chunking(v, tiling)
    # The second phase reads again what the first has read: from the L2 cache, if the rows in flight leave room in it.
    groups = -(-v.rows // tiling.rows)
    abreast = l2_bytes(device) * knobs.l2_percent // 100 // (v.n * itemsize(v.dtype) * tiling.rows)
    abreast = max(1, min(groups, abreast, GRID_LIMIT // chunks))
    threads = tiling.lanes_for(v.n) * tiling.rows
    partial = prepare(partial_kernel(v.dtype, tiling), device)
    merge = prepare(merge_kernel(v.dtype, tiling), device)
    waves = [
        tuple(kernel.call(blocks, *v.offsets, chunks, span, r0, threads=threads) for kernel in (partial, merge))
        for first in range(0, groups, abreast)
        for blocks, r0 in [(min(abreast, groups - first) * chunks, first * tiling.rows)]
    ]

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(v.rows * chunks * 2, dtype=_accumulate(v), device=device)
        steps = [step for first, second in waves for step in (first(x, pairs), second(x, pairs, out))]

        def launch() -> None:
            for step in steps:
                step()

        return owning(launch, pairs)

    return bind


def _share(v: View, blocks: int, threads: int, tiles: int) -> tuple[int, int]:
    """``(share, kept)``: elements of a row for each block, in whole lines of 128 bytes; and how many vectors a thread
    keeps in shared memory, past the ``tiles`` in its registers."""
    vectors = -(-max(1, v.n // v.vec) // (blocks * 8)) * 8
    return vectors * v.vec, max(0, -(-vectors // threads) - tiles)


def held_tiling(v: View, tiles: int) -> Tiling:
    """Up to 1024 threads: so each has 64 registers, and an SM runs two blocks of 512."""
    return Tiling(BLOCK_LIMIT, 1, tiles, v.vec, v.edges, flexible=True)


def grid_tiling(v: View) -> Tiling:
    """512 threads with 128 registers each, which hold two batches of 8 vectors; one in float64, for its exponential."""
    return Tiling(512, 1, HELD if v.dtype != "float64" else 4, v.vec, v.edges, flexible=True)


def _on_cluster(v: View, device: torch.device, blocks: int, threads: int, tiles: int) -> BindView:
    tiling = held_tiling(v, tiles)
    share, kept = _share(v, blocks, threads, tiles)
    return prepare(cluster_kernel(v.dtype, tiling), device).call(
        *(v.rows * blocks, *v.offsets, blocks, share, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cluster=blocks,
    )


def _on_grid(v: View, device: torch.device, chunks: int, threads: int) -> BindView:
    tiling = grid_tiling(v)
    share, kept = _share(v, chunks, threads, tiling.tiles)
    kept = min(kept, shared_bytes(device) // (threads * VECTOR_BYTES))
    groups = min(v.rows, multiprocessors(device) // chunks)
    kernel = prepare(grid_kernel(v.dtype, tiling), device)
    call = kernel.call(
        *(groups * chunks, *v.offsets, chunks, share, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cooperative=True,
    )

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(v.rows * chunks * 2, dtype=_accumulate(v), device=device)
        counters = torch.zeros(v.rows, dtype=torch.int64, device=device)
        return owning(call(x, pairs, counters, out), pairs, counters)

    return bind


def _accumulate(v: View) -> torch.dtype:
    return torch.float64 if v.dtype == "float64" else torch.float32


# ---------------------------------------------------------------------------------------------------------------------


@register("numba", "softmax", "auto")
def auto(x: torch.Tensor, out: torch.Tensor) -> Launch:
    """The fastest sibling for the problem, by the row's length and the number of rows."""
    return planned(plan_auto, Knobs, x, out)


def plan_auto(v: View, device: torch.device, knobs: Knobs) -> BindView:
    # Of float64 a block does better than a warp as soon as that has more than four vectors to a lane.
    longest = min(4 * WARP, knobs.warp_vectors) if v.dtype == "float64" else knobs.warp_vectors
    short = (v.edges and v.dtype != "float64") or v.n <= longest * v.vec
    if not v.across and (tile_shape(v) is not None or (short and multi_row_tiling(v) is not None)):
        return plan_multi_row(v, device, knobs)
    tiling = fused_tiling(v, knobs)
    if v.across:
        by_columns = softmax_columns.on_columns(v, device, most_blocks(device))
        if by_columns is not None:
            return by_columns
        return plan_fused(v, device, knobs) if tiling is not None else plan_split(v, device, knobs)
    # A block of its own per row, unless it is longer than a block of 512 threads holds and so few rows leave SMs idle.
    vectors = v.n // v.vec
    few = v.rows < knobs.few_rows * multiprocessors(device)
    most = knobs.few_vectors if few else 512 * HELD if v.edges else 1024 * HELD
    if itemsize(v.dtype) == 2 and not few and has_clusters(device):
        most = knobs.held_vectors
    if tiling is not None and (vectors <= most or v.vec * itemsize(v.dtype) < VECTOR_BYTES) and v.rows <= GRID_LIMIT:
        return plan_fused(v, device, knobs)
    return plan_split(v, device, knobs)
