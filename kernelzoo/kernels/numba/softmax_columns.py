"""Softmax over rows that lie side by side in memory, in Numba CUDA, for ``fused`` and ``split`` of :mod:`.softmax`.

A thread reads vectors of 16 bytes across the rows, so that it has a (max, sum) pair for each element of a vector, which
it meets with other threads' pairs of the same rows. Where the elements stay meanwhile is what the kernels differ in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import columns as columns_of
from kernelzoo.kernels.numba.columns import Columns, quotient
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import Source, has_clusters, multiprocessors, prepare, shared_bytes
from kernelzoo.kernels.numba.row import (
    ALIGNED,
    EVERY_LANE,
    WARP,
    Tiling,
    elements,
    exponential,
    machine,
    maximum,
    pointer,
    spread,
    word_type,
)
from kernelzoo.kernels.numba.view import VECTOR_BYTES, BindView, View, power_of_two
from kernelzoo.registry import Launch
from kernelzoo.workspace import owning

COLUMN_OFFSETS = (types.int64,) * columns_of.OFFSETS
count_up, seen = machine.count_up, machine.seen
TEAM = 8  # lanes that merge a row's pairs; a warp has whole teams


@cuda.jit(device=True, inline="always")
def wait_for_all(counters, which, blocks):
    """Until so many blocks have come as far, at a counter which only ever grows; what they wrote may be read then."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        before = count_up(counters, which)
        complete = (before // blocks + 1) * blocks
        while seen(counters, which) < complete:
            pass
    cuda.syncthreads()


@cache
def finite_of(dtype: str) -> Any:
    """``finite(m)``: what to subtract for a largest value of m: m, but 0 for -inf."""
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)

    @cuda.jit(device=True, inline="always")
    def finite(m):
        return m if m > LOWEST else ZERO

    return finite


@cache
def by_column(dtype: str, vec: int, words: int) -> tuple[Any, Any, Any]:
    """``tops(row, tiles, m)``, ``totals(row, k, shift, s)``, ``finishes(row, k, shift, scale)``: as in softmax's
    ``arithmetic``, but each element of a vector is of another row; ``tops`` of that many vectors at once."""
    if machine.is_packed(dtype, vec):
        low, high, pair, larger, _ = machine.word_functions(dtype)
        keep = machine.keep

        @cuda.jit(device=True, inline="always")
        def tops(row, tiles, m):
            for j in range(words):
                word = row[j]
                for tile in range(1, tiles):
                    word = larger(word, row[tile * words + j])
                m[2 * j] = maximum(m[2 * j], low(word))
                m[2 * j + 1] = maximum(m[2 * j + 1], high(word))

        @cuda.jit(device=True, inline="always")
        def totals(row, k, shift, s):
            for j in range(words):
                word = keep(row[k + j])
                s[2 * j] += exponential(low(word) - shift[2 * j])
                s[2 * j + 1] += exponential(high(word) - shift[2 * j + 1])

        @cuda.jit(device=True, inline="always")
        def finishes(row, k, shift, scale):
            for j in range(words):
                word = keep(row[k + j])
                row[k + j] = pair(
                    exponential(low(word) - shift[2 * j]) * scale[2 * j],
                    exponential(high(word) - shift[2 * j + 1]) * scale[2 * j + 1],
                )

        return tops, totals, finishes

    @cuda.jit(device=True, inline="always")
    def wide_tops(row, tiles, m):
        for tile in range(tiles):
            for j in range(words):
                m[j] = maximum(m[j], row[tile * words + j])

    @cuda.jit(device=True, inline="always")
    def wide_totals(row, k, shift, s):
        for j in range(words):
            row[k + j] = exponential(row[k + j] - shift[j])
            s[j] += row[k + j]

    @cuda.jit(device=True, inline="always")
    def wide_finishes(row, k, shift, scale):
        for j in range(words):
            row[k + j] *= scale[j]

    return wide_tops, wide_totals, wide_finishes


@cache
def running(dtype: str, vec: int, tiles: int) -> tuple[Any, Any]:
    """``take(row, m, s)``: the pairs (m, s) of ``vec`` rows with ``tiles`` vectors more, which become exponentials, but
    for packed halves. ``give(row, shift, scale)``: elements into results, of the first ``tiles`` vectors."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    VEC, TILES, WORDS = vec, tiles, Tiling(1, 1, 1, vec).words(dtype)
    PACKED = machine.is_packed(dtype, vec)
    finite = finite_of(dtype)
    tops, totals, finishes = by_column(dtype, vec, WORDS)

    @cuda.jit(device=True, inline="always")
    def take(row, m, s):
        grown = cuda.local.array(VEC, kind)
        part = cuda.local.array(VEC, kind)
        for k in range(VEC):
            grown[k] = m[k]
        tops(row, TILES, grown)
        for k in range(VEC):
            shift = finite(grown[k])
            s[k] *= exponential(m[k] - shift)
            m[k] = grown[k]
            grown[k] = shift
            part[k] = ZERO
        for tile in range(TILES):
            totals(row, tile * WORDS, grown, part)
        for k in range(VEC):
            s[k] += part[k]

    @cuda.jit(device=True, inline="always")
    def give(row, shift, scale):
        if not PACKED:
            for tile in range(TILES):
                for j in range(WORDS):
                    row[tile * WORDS + j] = exponential(row[tile * WORDS + j] - shift[j])
        for tile in range(TILES):
            finishes(row, tile * WORDS, shift, scale)

    return take, give


@cache
def teams(dtype: str) -> Any:
    """``meet(maxima, sums, count, stride, row, part)``: the pair of ``count`` pairs, ``stride`` apart from ``row`` on,
    by a team of 8 lanes that are ``part`` 0 to 7; the same bits in each."""
    LOWEST: Any = lowest(dtype)
    ZERO = type(LOWEST)(0)
    finite = finite_of(dtype)

    @cuda.jit(device=True, inline="always")
    def meet(maxima, sums, count, stride, row, part):
        m = LOWEST
        i = part
        while i < count:
            m = maximum(m, maxima[i * stride + row])
            i = types.int32(i + TEAM)
        for step in range(3):
            m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, 4 >> step))
        shift = finite(m)
        s = ZERO
        i = part
        while i < count:
            s += sums[i * stride + row] * exponential(maxima[i * stride + row] - shift)
            i = types.int32(i + TEAM)
        for step in range(3):
            s += cuda.shfl_xor_sync(EVERY_LANE, s, 4 >> step)
        return m, s

    return meet


def meeting(dtype: str, vec: int, lanes: int, in_clusters: bool) -> Any:
    """``meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)``: from a thread's pairs (top, total) of
    ``vec`` rows to what finishes them, for all to read: in ``maxima`` what to subtract of each row, in ``sums`` the
    factor. Of ``lanes`` threads side by side each has rows of its own.

    Pairs meet in the warp, in the block, and in the cluster, in a fixed order: there in ``pairs``, the bytes
    of which ``barrier`` counts.
    """
    ONE = one(dtype)
    VEC, LANES, WIDE_ROWS, SPAN = vec, lanes, lanes * vec, max(WARP, lanes)
    STEPS = max(0, (WARP // lanes).bit_length() - 1)
    finite, meet = finite_of(dtype), teams(dtype)
    _, cluster_wait, send, wait_for = columns_of.cluster_words(in_clusters)

    @cuda.jit(device=True, inline="always")
    def meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks):
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, warp, warps = t % LANES, t // SPAN, types.int32(threads // SPAN)
        for k in range(VEC):
            m, s = top[k], total[k]
            for step in range(STEPS):
                m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, 16 >> step))
            s *= exponential(top[k] - finite(m))
            for step in range(STEPS):
                s += cuda.shfl_xor_sync(EVERY_LANE, s, 16 >> step)
            if t % WARP < LANES:
                maxima[warp * WIDE_ROWS + lane * VEC + k] = m
                sums[warp * WIDE_ROWS + lane * VEC + k] = s
        cuda.syncthreads()
        part, first_row = types.int32(t % TEAM), types.int32(t // TEAM)
        next_row = types.int32(threads // TEAM)
        if in_clusters:
            cluster_wait()  # the other blocks have begun: their shared memory is there
            row = first_row
            while row < WIDE_ROWS:
                m, s = meet(maxima, sums, warps, WIDE_ROWS, row, part)
                peer = part
                while peer < blocks:
                    send(pairs, 2 * (rank * WIDE_ROWS + row), (m, s), barrier, types.int64(peer))
                    peer = types.int32(peer + TEAM)
                row = types.int32(row + next_row)
            wait_for(barrier)
        row = first_row
        while row < WIDE_ROWS:
            if in_clusters:
                m, s = meet(pairs[0::2], pairs[1::2], types.int32(blocks), WIDE_ROWS, row, part)
            else:
                m, s = meet(maxima, sums, warps, WIDE_ROWS, row, part)
            if part == 0:
                maxima[row] = finite(m)
                sums[row] = ONE / s
            row = types.int32(row + next_row)
        cuda.syncthreads()

    return meet_all


# ---------------------------------------------------------------------------------------------------------------------
# In the registers of a block, or of the blocks of a cluster

COLUMN_WARPS = 16
GRID_LIMIT = 2**31 - 1  # blocks in a launch


@cache
def columns_kernel(dtype: str, lanes: int, tiles: int, in_clusters: bool) -> Source:
    """Rows side by side, on chip in a block, or in the blocks of a cluster: read once, and written once.

    Each thread has ``tiles`` vectors one below the other, and the (max, sum) pair of each row in them.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    VEC = VECTOR_BYTES // itemsize(dtype)
    LANES, TILES, WIDE_ROWS = lanes, tiles, lanes * VEC
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, SLOTS = WORDS * tiles, WIDE_ROWS * COLUMN_WARPS
    NUMBERS = 2 * SLOTS
    BLOCK_BYTES = 2 * WIDE_ROWS * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    finite = finite_of(dtype)
    tops, totals, finishes = by_column(dtype, VEC, WORDS)
    meet_all = meeting(dtype, VEC, lanes, in_clusters)
    cluster_arrive, _, _, _ = columns_of.cluster_words(in_clusters)

    def columns(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        held = cuda.local.array(HELD, WORD)
        own = cuda.local.array(VEC, kind)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, depth, depths = t % LANES, t // LANES, threads // LANES
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks) if in_clusters else block
        rank = block - place * blocks
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = quotient(place, across)
        column = (place - group * across) * WIDE_ROWS + lane * VEC
        first = rank * share + depth
        end = min(rank * share + share, n) if column < neighbours else types.int64(0)
        source = group * x_group + column
        for tile in range(TILES):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            i = first + tile * depths
            load_vector(x, source + i * x_step, held, tile * WORDS, i < end)

        for k in range(VEC):
            own[k] = LOWEST
        tops(held, TILES, own)
        for k in range(VEC):
            top[k] = own[k]
            own[k] = finite(own[k])
            total[k] = ZERO
        for tile in range(TILES):
            totals(held, tile * WORDS, own, total)

        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        for k in range(VEC):
            shift = maxima[lane * VEC + k]
            total[k] = sums[lane * VEC + k]
            if not PACKED:  # what is -inf alone was taken with 0, but stays 0 by this factor whatever the shift is
                total[k] *= exponential(top[k] - shift)
            top[k] = shift
        for tile in range(TILES):
            finishes(held, tile * WORDS, top, total)

        target = group * out_group + column
        for tile in range(TILES):
            i = first + tile * depths
            store_vector(out, target + i * out_step, held, tile * WORDS, i < end)

    arguments = (pointer(dtype), pointer(dtype), *COLUMN_OFFSETS)
    return Source(columns, arguments, COLUMN_WARPS * WARP, (dtype, lanes, tiles, in_clusters))


def columns_shape(c: Columns, dtype: str, most_blocks: int) -> tuple[int, int, int, int] | None:
    """``(lanes, tiles, blocks, threads)``: 64 bytes of neighbouring rows, or a sector of 32 for longer columns; eight
    vectors a thread, four in float64, whose exponential takes registers. Blocks of 256 threads, if they suffice: an SM
    runs three."""
    tiles = 4 if dtype == "float64" else 8
    for lanes, most_threads in ((4, 256), (4, 512), (2, 512)):
        blocks = -(-c.n // (most_threads // lanes * tiles))
        if blocks <= most_blocks:
            share = -(-c.n // blocks)
            threads = max(-(-share // tiles) * lanes, lanes * c.vec)
            return lanes, tiles, blocks, -(-threads // WARP) * WARP
    return None


# ---------------------------------------------------------------------------------------------------------------------
# In the shared memory of a block, or of the blocks of a cluster

MOST_BLOCKS = 16  # in a cluster
BARRIER_BYTES = 16  # for a cluster's barrier, up to where dynamic shared memory may begin
HELD_TILES = {1: 8, 2: 4, 4: 4, 8: 2}
"""Vectors that a thread takes at once, by their elements."""


@cache
def held_kernel(
    dtype: str, vec: int, lanes: int, in_clusters: bool, threads: int, resident: int = 1, tiles: int = 0
) -> Source:
    """Rows side by side, on chip in the shared memory of a block, or of a cluster's blocks: read once, written once.

    A block takes ``lanes`` vectors side by side. All that a thread copies it reads back itself, so that it waits for
    its own copies alone. With vectors of one element, rows may begin on any boundary.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    storage = STORAGE[dtype]
    VEC, LANES, WIDE_ROWS, TILES = vec, lanes, lanes * vec, HELD_TILES[vec]
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    BATCH, SPAN = WORDS * TILES, max(WARP, lanes)
    SLOTS = threads // SPAN * WIDE_ROWS
    NUMBERS = 2 * MOST_BLOCKS * WIDE_ROWS if in_clusters else 1
    BLOCK_BYTES = 2 * WIDE_ROWS * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    REGISTERS, HELD = tiles, max(1, tiles * WORDS)
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    copy_in, wait_copies, _, widened, _ = machine.tile_functions(dtype)
    take, give = running(dtype, VEC, TILES)
    take_one, give_one = running(dtype, VEC, 1)
    take_held, _ = running(dtype, VEC, REGISTERS)
    _, _, finishes = by_column(dtype, VEC, WORDS)
    meet_all = meeting(dtype, VEC, lanes, in_clusters)
    if VEC > 1:
        load_tile = machine.tile_vector(dtype)
    else:
        copy_in = machine.element_copy(dtype)

        @cuda.jit(device=True, inline="always")
        def load_tile(tile, j, row, k):
            row[k] = widened(tile, j)

    cluster_arrive, _, _, _ = columns_of.cluster_words(in_clusters)

    def held(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        memory = cuda.shared.array(0, storage, ALIGNED)
        row = cuda.local.array(BATCH, WORD)
        held = cuda.local.array(HELD, WORD)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        shift = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        lane, depth, depths = t % LANES, t // LANES, threads // LANES
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks)
        rank = block - place * blocks
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        group = quotient(place, across)
        column = (place - group * across) * WIDE_ROWS + lane * VEC
        first = rank * share + depth
        end = min(rank * share + share, n) if column < neighbours else types.int64(0)
        stride = threads * VEC
        source = group * x_group + column + first * x_step
        step = depths * x_step
        i, j = first + REGISTERS * depths, t * VEC
        at = source + REGISTERS * step
        while i < end:
            copy_in(x, at, memory, j)
            i += depths
            j += stride
            at += step
        last = j
        for tile in range(REGISTERS):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            load_vector(x, source + tile * step, held, tile * WORDS, first + tile * depths < end)
        for k in range(VEC):
            top[k] = LOWEST
            total[k] = ZERO
        wait_copies()
        j = t * VEC
        while j + (TILES - 1) * stride < last:
            for tile in range(TILES):
                load_tile(memory, j + tile * stride, row, tile * WORDS)
            take(row, top, total)
            j += TILES * stride
        while j < last:
            load_tile(memory, j, row, 0)
            take_one(row, top, total)
            j += stride
        if REGISTERS > 0:
            take_held(held, top, total)

        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        for k in range(VEC):
            shift[k] = maxima[lane * VEC + k]
            factor = sums[lane * VEC + k]
            total[k] = factor
            if not PACKED:  # in registers there are exponentials already
                total[k] *= exponential(top[k] - shift[k])
            top[k] = factor
        at, step = group * out_group + column + first * out_step, depths * out_step
        for tile in range(REGISTERS):
            finishes(held, tile * WORDS, shift, total)
        for tile in range(REGISTERS):
            store_vector(out, at + tile * step, held, tile * WORDS, first + tile * depths < end)
        j = t * VEC
        at += REGISTERS * step
        while j + (TILES - 1) * stride < last:
            for tile in range(TILES):
                load_tile(memory, j + tile * stride, row, tile * WORDS)
            give(row, shift, top)
            for tile in range(TILES):
                store_vector(out, at + tile * step, row, tile * WORDS, True)
            j += TILES * stride
            at += TILES * step
        while j < last:
            load_tile(memory, j, row, 0)
            give_one(row, shift, top)
            store_vector(out, at, row, 0, True)
            j += stride
            at += step

    arguments = (pointer(dtype), pointer(dtype), *COLUMN_OFFSETS)
    constants = (dtype, vec, lanes, in_clusters, threads, resident, tiles)
    return Source(held, arguments, threads, constants, resident)


def shared_of(device: torch.device, blocks: int) -> int:
    """Bytes of shared memory for each of so many blocks on an SM, of which the driver takes a kilobyte."""
    return min((shared_bytes(device) + 3072) // blocks - 1024, shared_bytes(device))


@dataclass(frozen=True)
class Held:
    """How ``held_kernel`` takes columns."""

    lanes: int
    threads: int
    tiles: int
    """Vectors of a thread in registers."""
    resident: int
    """Blocks on an SM at once."""
    blocks: int = 1
    """To a cluster."""

    def static(self, c: Columns) -> int:
        """Bytes of shared memory for pairs: of warps, or of as many threads as lie side by side, and of blocks; and for
        the barrier that counts these."""
        slots = self.threads // max(WARP, self.lanes) + MOST_BLOCKS
        return slots * self.lanes * c.vec * 2 * 4 + BARRIER_BYTES

    def most(self, c: Columns, size: int, device: torch.device) -> int:
        """Elements of a row that a block holds."""
        room = (
            (shared_bytes(device) + 3072) // self.resident - 1024 - self.static(c)
        )  # a block's kilobyte is the driver's
        kept = max(0, room) // (self.threads * c.vec * size)
        return (self.tiles + kept) * (self.threads // self.lanes)

    def kept(self, c: Columns) -> int:
        """Vectors of a thread in shared memory."""
        share = -(-c.n // self.blocks)
        return max(0, -(-share * self.lanes // self.threads) - self.tiles)


def held_shape(c: Columns, dtype: str, device: torch.device, most_blocks: int) -> Held | None:
    """128 bytes of neighbouring rows in blocks of 128 kB, of which an SM runs two; or 64 bytes, where one holds those.
    Of single elements 83 kB, three to an SM. None for what a cluster doesn't hold."""
    size = itemsize(dtype)
    if size > 4 or c.vec * size < 4:
        return None
    held = Held(4, 256, 0, 3) if c.n <= ALONE_LONG else Held(8, 256, 8, 2)
    if c.vec == 1:
        held = Held(32, 256, 16, 3)
    most = held.most(c, size, device)
    blocks = power_of_two(-(-c.n // most)) if most else MOST_BLOCKS + 1
    at_once = held.resident * multiprocessors(device)
    while 2 * blocks <= min(most_blocks, PORTABLE) and 2 * blocks * c.tiles(held.lanes) <= at_once:
        blocks *= 2
    return replace(held, blocks=blocks) if blocks <= most_blocks else None


def plan_held(v: View, device: torch.device, c: Columns, held: Held) -> BindView:
    source = held_kernel(v.dtype, c.vec, held.lanes, held.blocks > 1, held.threads, held.resident, held.tiles)
    return prepare(source, device).call(
        *(c.tiles(held.lanes) * held.blocks, *c.offsets, held.blocks, -(-c.n // held.blocks)),
        threads=held.threads,
        shared=held.kept(c) * held.threads * c.vec * itemsize(v.dtype),
        cluster=held.blocks,
    )


# ---------------------------------------------------------------------------------------------------------------------
# The same of rows that begin anywhere in a vector

RAGGED_WARPS = 8  # of a block, at most
RAGGED_BLOCKS = 4  # on an SM
RAGGED_BYTES = 84  # of shared memory for each thread, of which warps there are enough
RAGGED_LONG = 64  # elements of a row for a block, below which a cluster has no more blocks


@cache
def ragged_kernel(dtype: str, in_clusters: bool) -> Source:
    """Rows side by side that begin anywhere in a vector, on chip in shared memory: read once, written once.

    A block takes 32 neighbouring rows, a lane each. Their elements of one place in the rows are a piece of memory, and
    the words of 16 bytes that it lies in are copied whole: halves, too, go without a register between. A warp has
    ``items`` places, one after the other, ``PITCH`` elements of shared memory each.
    """
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    storage = STORAGE[dtype]
    VEC = VECTOR_BYTES // itemsize(dtype)
    LOW_BITS, WORDS, PITCH = VEC - 1, WARP // VEC + 1, WARP + VEC  # a word more, where rows begin within one
    AT_ONCE, BATCH = WARP // WORDS, 8
    SLOTS, NUMBERS = RAGGED_WARPS * WARP, 2 * MOST_BLOCKS * WARP if in_clusters else 1
    BLOCK_BYTES = 2 * WARP * kind.bitwidth // 8  # of pairs, that each block of a cluster sends to each
    _, store = elements(dtype)
    copy_word, end_group, wait_groups = machine.word_copy(dtype), machine.end_group, machine.wait_groups
    _, wait_copies, _, widened, _ = machine.tile_functions(dtype)
    take, _ = running(dtype, 1, BATCH)
    meet_all = meeting(dtype, 1, WARP, in_clusters)
    cluster_arrive, _, _, _ = columns_of.cluster_words(in_clusters)

    @cuda.jit(device=True, inline="always")
    def copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, i, end, every):
        word = types.int32(lane % WORDS * VEC)
        i = types.int32(i + lane // WORDS)
        at += i * x_step
        while i < end and lane < AT_ONCE * WORDS:
            before = types.int32(begins + i * slope & LOW_BITS)
            if word < before + live:
                copy_word(x, at - before + word, memory, types.int64(mine + i * PITCH + word), every)
            i = types.int32(i + AT_ONCE)
            at += AT_ONCE * x_step

    @cuda.jit(device=True, inline="always")
    def take_rows(memory, mine, ahead, row, top, total, i, end):
        here = types.int32(mine + i * PITCH)
        while i + BATCH <= end:
            for k in range(BATCH):
                row[k] = widened(memory, types.int64(here + ahead[k]))
            take(row, top, total)
            here = types.int32(here + BATCH * PITCH)
            i = types.int32(i + BATCH)
        if i < end:
            for k in range(BATCH):
                row[k] = LOWEST
                if i + k < end:
                    row[k] = widened(memory, types.int64(here + ahead[k]))
            take(row, top, total)

    def ragged(x, out, groups, neighbours, n, x_group, x_step, out_group, out_step, blocks, share, phase, items):
        barrier = cuda.shared.array(1, types.int64)
        if in_clusters:
            cluster_arrive(barrier, blocks * BLOCK_BYTES)
        memory = cuda.shared.array(0, storage, ALIGNED)
        row = cuda.local.array(BATCH, kind)
        ahead = cuda.local.array(BATCH, types.int32)
        top = cuda.local.array(1, kind)
        total = cuda.local.array(1, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        pairs = cuda.shared.array(NUMBERS, kind, ALIGNED)
        t = types.int64(cuda.threadIdx.x)
        warp, lane = t // WARP, t % WARP
        block = types.int64(cuda.blockIdx.x)
        place = quotient(block, blocks)
        rank = block - place * blocks
        across = (neighbours + WARP - 1) // WARP
        group = quotient(place, across)
        column = (place - group * across) * WARP
        live = types.int32(min(neighbours - column, types.int64(WARP)))
        first = rank * share + warp * items
        count = types.int32(min(min(rank * share + share, n) - first, items))
        at = group * x_group + column + first * x_step
        every = (groups - 1) * x_group + (n - 1) * x_step + neighbours
        mine = types.int32(warp * items * PITCH)
        begins, slope = types.int32(phase + at & LOW_BITS), types.int32(x_step & LOW_BITS)
        early = min(count, types.int32((items // 2 + BATCH - 1) // BATCH * BATCH))
        copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, types.int32(0), early, every)
        end_group()
        copy_rows(x, at, x_step, memory, mine, begins, slope, live, lane, early, count, every)
        end_group()
        for k in range(BATCH):  # of every batch, since rows begin alike after VEC of them
            ahead[k] = types.int32(k * PITCH + (begins + k * slope & LOW_BITS))
        top[0] = LOWEST
        total[0] = ZERO
        mine = types.int32(mine + lane)
        if lane >= live:
            early, count = types.int32(0), types.int32(0)
        wait_groups()
        cuda.syncwarp(EVERY_LANE)  # lanes read what others have copied
        take_rows(memory, mine, ahead, row, top, total, types.int32(0), early)
        wait_copies()
        cuda.syncwarp(EVERY_LANE)
        take_rows(memory, mine, ahead, row, top, total, early, count)
        meet_all(top, total, maxima, sums, pairs, barrier, rank, blocks)
        shift, scale = maxima[lane], sums[lane]
        here = mine
        target = group * out_group + column + lane + first * out_step
        i = types.int32(0)
        while i + BATCH <= count:
            for k in range(BATCH):
                row[k] = widened(memory, types.int64(here + ahead[k]))
            for k in range(BATCH):
                store(out, target, exponential(row[k] - shift) * scale)
                target += out_step
            here = types.int32(here + BATCH * PITCH)
            i = types.int32(i + BATCH)
        for k in range(BATCH):
            if i + k < count:
                element = widened(memory, types.int64(here + ahead[k]))
                store(out, target, exponential(element - shift) * scale)
            target += out_step

    arguments = (pointer(dtype), pointer(dtype), *COLUMN_OFFSETS, types.int64, types.int64)
    return Source(ragged, arguments, RAGGED_WARPS * WARP, (dtype, in_clusters), RAGGED_BLOCKS)


@dataclass(frozen=True)
class Ragged:
    """How ``ragged_kernel`` takes columns."""

    warps: int
    items: int
    """Elements of a row for each warp."""
    blocks: int
    """To a cluster."""
    shared: int


def ragged_shape(c: Columns, dtype: str, device: torch.device, most_blocks: int) -> Ragged | None:
    """As many blocks on an SM as the shared memory of the smallest clusters that fill the device lets in; None for what
    none holds, or where too many lanes would be idle."""
    across = -(-c.neighbours // WARP)
    if itemsize(dtype) > 4 or 4 * c.neighbours < 3 * across * WARP or c.x_step < c.neighbours:
        return None
    pitch = WARP * itemsize(dtype) + VECTOR_BYTES
    static = 2 * (RAGGED_WARPS + MOST_BLOCKS) * WARP * itemsize("float32") + BARRIER_BYTES
    for resident in (RAGGED_BLOCKS, 3, 2):
        fits = None
        blocks = 1
        while blocks <= most_blocks:
            share = -(-c.n // blocks)
            warps = min(RAGGED_WARPS, max(2, -(-share * pitch // (RAGGED_BYTES * WARP))))
            items = -(-share // warps)
            shared = warps * items * pitch
            if static + shared <= shared_of(device, resident):
                fits = Ragged(warps, items, blocks, shared)
                if c.groups * across * blocks >= multiprocessors(device) or share <= RAGGED_LONG:
                    break
            blocks *= 2
        if fits is not None:
            return fits
    return None


def plan_ragged(v: View, device: torch.device, c: Columns, ragged: Ragged) -> BindView:
    return prepare(ragged_kernel(v.dtype, ragged.blocks > 1), device).call(
        c.groups * -(-c.neighbours // WARP) * ragged.blocks,
        *(*c.offsets, ragged.blocks, -(-c.n // ragged.blocks), v.phase, ragged.items),
        threads=ragged.warps * WARP,
        shared=ragged.shared,
        cluster=ragged.blocks,
    )


# ---------------------------------------------------------------------------------------------------------------------
# As one piece of memory

FLAT_THREADS, FLAT_TILES = 512, 8


@cache
def flat_kernel(dtype: str, tiles: int) -> Source:
    """Few rows side by side, at whatever width: the whole grid reads them as one piece of memory (co-operative launch).

    Threads go round the rows together: a thread's vectors are ``active`` threads apart, a number of vectors after which
    the rows repeat, so that each place in them is of the same row. Blocks take rounds in turn. Of its vectors a thread
    holds the first ``kept`` in shared memory and the last ``tiles`` in registers; the others are read again, the last
    one first, which is the likeliest to be in the L2 cache still.
    """
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    ZERO = type(ONE)(0)
    storage = STORAGE[dtype]
    VEC, TILES, FEW, AT_ONCE = VECTOR_BYTES // itemsize(dtype), tiles, 4, 5
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, BATCH, SLOTS = WORDS * TILES, WORDS * FEW, FLAT_THREADS * VEC
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    load, store = elements(dtype)
    copy_in, wait_copies, _, _, _ = machine.tile_functions(dtype)
    load_tile = machine.tile_vector(dtype)
    finite = finite_of(dtype)
    take, give = running(dtype, VEC, TILES)
    take_few, give_few = running(dtype, VEC, FEW)
    _, _, finishes = by_column(dtype, VEC, WORDS)
    meet = teams(dtype)

    @cuda.jit(device=True, inline="always")
    def read(x, i, active, last, held):
        for tile in range(TILES):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            at = i + tile * active
            load_vector(x, at * VEC, held, tile * WORDS, at < last)

    @cuda.jit(device=True, inline="always")
    def write(out, i, active, last, held):
        for tile in range(TILES):
            at = i + tile * active
            store_vector(out, at * VEC, held, tile * WORDS, at < last)

    def flat(x, pairs, counters, out, rows, n, active, kept):
        held = cuda.local.array(HELD, WORD)
        few = cuda.local.array(BATCH, WORD)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        shift = cuda.local.array(VEC, kind)
        maxima_of = cuda.local.array(AT_ONCE, kind)
        sums_of = cuda.local.array(AT_ONCE, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        block, blocks = types.int64(cuda.blockIdx.x), types.int64(cuda.gridDim.x)
        count = rows * n
        vectors = count // VEC
        first, apart = block * active + t, blocks * active
        last = vectors if t < active else types.int64(0)
        stride = threads * VEC
        i, j = first, t * VEC
        beyond = first + kept * apart
        while i < min(last, beyond):
            copy_in(x, i * VEC, memory, j)
            i += apart
            j += stride
        for k in range(VEC):
            top[k] = LOWEST
            total[k] = ZERO
        final = beyond  # where the last batch begins
        while final + TILES * apart < last:
            read(x, final, apart, last, held)
            take(held, top, total)
            final += TILES * apart
        wait_copies()
        i, j = first, t * VEC
        while i < min(last, beyond):
            for tile in range(FEW):
                for k in range(WORDS):
                    few[tile * WORDS + k] = IDENTITY
                if i + tile * apart < min(last, beyond):
                    load_tile(memory, j + tile * stride, few, tile * WORDS)
            take_few(few, top, total)
            i += FEW * apart
            j += FEW * stride
        read(x, final, apart, last, held)
        take(held, top, total)

        # The block's pairs, row by row; in the first block, with what is left over after the last whole vector.
        for k in range(VEC):
            maxima[t * VEC + k] = top[k]
            sums[t * VEC + k] = total[k]
        cuda.syncthreads()
        part = types.int32(t % TEAM)
        places = types.int32(active * VEC // rows)
        r = t // TEAM
        while r - t // TEAM < rows:  # whole warps, for the shuffles
            row = min(r, rows - 1)
            m, s = meet(maxima, sums, places, rows, row, part)
            if part == 0 and r < rows:
                i = vectors * VEC if block == 0 else count
                while i < count:
                    if i % rows == row:
                        edge = load(x, i)
                        grown = maximum(m, edge)
                        s = s * exponential(m - finite(grown)) + exponential(edge - finite(grown))
                        m = grown
                    i += 1
                pairs[(block * rows + row) * 2] = m
                pairs[(block * rows + row) * 2 + 1] = s
            r += threads // TEAM
        wait_for_all(counters, types.int64(0), blocks)

        # Each row's pairs by one warp of one block, which puts what it finds in place of the first block's.
        lane = t % WARP
        r = block + t // WARP * blocks
        while r < rows:
            m, s = LOWEST, ZERO
            i = lane
            while i < blocks:
                for step in range(AT_ONCE):  # all on their way before the first is waited for
                    maxima_of[step], sums_of[step] = LOWEST, ZERO
                    if i + step * WARP < blocks:
                        maxima_of[step] = pairs[((i + step * WARP) * rows + r) * 2]
                        sums_of[step] = pairs[((i + step * WARP) * rows + r) * 2 + 1]
                grown = m
                for step in range(AT_ONCE):
                    grown = maximum(grown, maxima_of[step])
                s *= exponential(m - finite(grown))
                for step in range(AT_ONCE):
                    s += sums_of[step] * exponential(maxima_of[step] - finite(grown))
                m = grown
                i += AT_ONCE * WARP
            own = m
            for step in range(5):
                m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, 16 >> step))
            s *= exponential(own - finite(m))
            for step in range(5):
                s += cuda.shfl_xor_sync(EVERY_LANE, s, 16 >> step)
            if lane == 0:
                pairs[r * 2] = finite(m)
                pairs[r * 2 + 1] = ONE / s
            r += threads // WARP * blocks
        wait_for_all(counters, types.int64(0), blocks)
        r = t
        while r < rows:
            maxima[r] = pairs[r * 2]
            sums[r] = pairs[r * 2 + 1]
            r += threads
        cuda.syncthreads()

        for k in range(VEC):
            row = (t * VEC + k) % rows
            shift[k] = maxima[row]
            factor = sums[row]
            total[k] = factor
            if not PACKED:  # the last batch is of exponentials already
                total[k] *= exponential(top[k] - shift[k])
            top[k] = factor
        for tile in range(TILES):
            finishes(held, tile * WORDS, shift, total)
        write(out, final, apart, last, held)
        final -= TILES * apart
        while final >= beyond:
            read(x, final, apart, last, held)
            give(held, shift, top)
            write(out, final, apart, last, held)
            final -= TILES * apart
        i, j = first, t * VEC
        while i < min(last, beyond):
            for tile in range(FEW):
                if i + tile * apart < min(last, beyond):
                    load_tile(memory, j + tile * stride, few, tile * WORDS)
            give_few(few, shift, top)
            for tile in range(FEW):
                at = i + tile * apart
                store_vector(out, at * VEC, few, tile * WORDS, at < min(last, beyond))
            i += FEW * apart
            j += FEW * stride
        i = vectors * VEC + t
        if block == 0 and i < count:  # fewer than there are threads
            store(out, i, exponential(load(x, i) - maxima[i % rows]) * sums[i % rows])

    arguments = (pointer(dtype), types.CPointer(kind), types.CPointer(types.int64), pointer(dtype), *(types.int64,) * 4)
    return Source(flat, arguments, FLAT_THREADS, (dtype, tiles))


def flat_shape(c: Columns, dtype: str) -> tuple[int, int] | None:
    """``(active, threads)``: as many threads as go round the rows together, of a block's; None where rows are too many,
    or too short to gain by it."""
    active = c.in_step(FLAT_THREADS)
    if itemsize(dtype) > 4 or not active or c.n < 1024:
        return None
    return active, -(-active // WARP) * WARP


def plan_flat(v: View, device: torch.device, c: Columns, active: int, threads: int) -> BindView:
    vectors = c.n * c.neighbours // c.vec
    blocks = max(1, min(multiprocessors(device), vectors // (active * FLAT_TILES // 2)))
    room = shared_bytes(device) - 2 * FLAT_THREADS * c.vec * itemsize("float32")
    kept = min(max(0, room) // (threads * VECTOR_BYTES), -(-vectors // (blocks * active)))
    call = prepare(flat_kernel(v.dtype, FLAT_TILES), device).call(
        *(blocks, c.neighbours, c.n, active, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cooperative=True,
    )

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(blocks * c.neighbours * 2, dtype=torch.float32, device=device)
        counters = torch.zeros(1, dtype=torch.int64, device=device)
        return owning(call(x, pairs, counters, out), pairs, counters)

    return bind


# ---------------------------------------------------------------------------------------------------------------------
# By the whole grid, in turns

TURNS_LANES, TURNS_TILES, TURNS_THREADS, TURNS_BLOCKS = 16, 8, 256, 2


@cache
def turns_kernel(dtype: str, lanes: int, tiles: int, threads: int, resident: int) -> Source:
    """Rows side by side, on chip in blocks anywhere on the device, which stay and take one tile of rows after the other
    (a co-operative launch): read once, written once.

    A tile is ``lanes`` vectors side by side, which ``parts`` blocks share. Of its vectors a thread holds the first
    ``tiles`` in registers and the others in shared memory, where those of the next tile take their place as soon as
    they are written.
    """
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    ZERO = type(ONE)(0)
    storage = STORAGE[dtype]
    VEC, TILES, FEW, AT_ONCE = VECTOR_BYTES // itemsize(dtype), tiles, 4 if itemsize(dtype) == 4 else 2, 4
    LANES, WIDE_ROWS, THREADS, DEPTHS = lanes, lanes * VEC, threads, threads // lanes
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, BATCH, SLOTS = max(1, WORDS * TILES), WORDS * FEW, THREADS * VEC
    FAR_TEAM = max(1, min(TEAM, threads // (lanes * VEC)))  # lanes that merge a row's pairs of all parts
    IDENTITY = spread(dtype, VEC, LOWEST)
    PACKED = machine.is_packed(dtype, VEC)
    load_vector, store_vector = machine.vector_functions(dtype, VEC)
    copy_in, wait_copies, _, _, _ = machine.tile_functions(dtype)
    load_tile = machine.tile_vector(dtype)
    finite = finite_of(dtype)
    take_held, _ = running(dtype, VEC, TILES)
    take, give = running(dtype, VEC, FEW)
    take_one, give_one = running(dtype, VEC, 1)
    _, _, finishes = by_column(dtype, VEC, WORDS)
    meet = teams(dtype)
    STEPS = FAR_TEAM.bit_length() - 1

    @cuda.jit(device=True, inline="always")
    def far_pair(pairs, base, count, part):
        maxima = cuda.local.array(AT_ONCE, kind)
        sums = cuda.local.array(AT_ONCE, kind)
        m, s = LOWEST, ZERO
        i = part
        while i < count:
            for step in range(AT_ONCE):  # all on their way before the first is waited for
                maxima[step], sums[step] = LOWEST, ZERO
                if i + step * FAR_TEAM < count:
                    maxima[step] = pairs[(base + (i + step * FAR_TEAM) * WIDE_ROWS) * 2]
                    sums[step] = pairs[(base + (i + step * FAR_TEAM) * WIDE_ROWS) * 2 + 1]
            grown = m
            for step in range(AT_ONCE):
                grown = maximum(grown, maxima[step])
            s *= exponential(m - finite(grown))
            for step in range(AT_ONCE):
                s += sums[step] * exponential(maxima[step] - finite(grown))
            m = grown
            i = types.int32(i + AT_ONCE * FAR_TEAM)
        own = m
        for step in range(STEPS):
            m = maximum(m, cuda.shfl_xor_sync(EVERY_LANE, m, FAR_TEAM // 2 >> step))
        s *= exponential(own - finite(m))
        for step in range(STEPS):
            s += cuda.shfl_xor_sync(EVERY_LANE, s, FAR_TEAM // 2 >> step)
        return m, s

    @cuda.jit(device=True, inline="always")
    def place(s, t, across, neighbours, n, x_group, x_step, out_group, out_step, part, share):
        # Of tile s: this thread's first element in x and in out, and how many vectors it has.
        group = s // across
        column = (s - group * across) * WIDE_ROWS + t % LANES * VEC
        first = part * share + t // LANES
        last = min(part * share + share, n) if column < neighbours else types.int64(0)
        count = (max(last - first, types.int64(0)) + DEPTHS - 1) // DEPTHS
        source, target = group * x_group + column + first * x_step, group * out_group + column + first * out_step
        return source, target, types.int32(count)

    @cuda.jit(device=True, inline="always")
    def read_held(x, source, x_stride, count, held):
        for tile in range(TILES):
            for k in range(WORDS):
                held[tile * WORDS + k] = IDENTITY
            load_vector(x, source + tile * x_stride, held, tile * WORDS, tile < count)

    def turns(
        x,
        pairs,
        counters,
        out,
        groups,
        neighbours,
        n,
        x_group,
        x_step,
        out_group,
        out_step,
        parts,
        share,
    ):
        held = cuda.local.array(HELD, WORD)
        row = cuda.local.array(BATCH, WORD)
        top = cuda.local.array(VEC, kind)
        total = cuda.local.array(VEC, kind)
        shift = cuda.local.array(VEC, kind)
        maxima = cuda.shared.array(SLOTS, kind)
        sums = cuda.shared.array(SLOTS, kind)
        memory = cuda.shared.array(0, storage, ALIGNED)
        t = types.int64(cuda.threadIdx.x)
        block = types.int64(cuda.blockIdx.x)
        at_once = types.int64(cuda.gridDim.x) // parts
        part, s = block // at_once, block % at_once
        across = (neighbours + WIDE_ROWS - 1) // WIDE_ROWS
        every = groups * across
        x_stride, out_stride = x_step * DEPTHS, out_step * DEPTHS
        stride, mine = types.int64(THREADS * VEC), t * VEC
        source, target, count = place(s, t, across, neighbours, n, x_group, x_step, out_group, out_step, part, share)
        k = types.int32(TILES)
        while k < count:
            copy_in(x, source + k * x_stride, memory, mine + (k - TILES) * stride)
            k = types.int32(k + 1)
        read_held(x, source, x_stride, count, held)
        while s < every:
            for j in range(VEC):
                top[j] = LOWEST
                total[j] = ZERO
            wait_copies()
            k = types.int32(TILES)
            while k + FEW <= count:
                for tile in range(FEW):
                    load_tile(memory, mine + (k - TILES + tile) * stride, row, tile * WORDS)
                take(row, top, total)
                k = types.int32(k + FEW)
            while k < count:
                load_tile(memory, mine + (k - TILES) * stride, row, 0)
                take_one(row, top, total)
                k = types.int32(k + 1)
            if TILES > 0:
                take_held(held, top, total)

            for j in range(VEC):
                maxima[mine + j] = top[j]
                sums[mine + j] = total[j]
            cuda.syncthreads()
            r, part_of = types.int32(t // TEAM), types.int32(t % TEAM)
            while r < WIDE_ROWS:
                m, all_of = meet(maxima, sums, types.int32(DEPTHS), WIDE_ROWS, r, part_of)
                if part_of == 0:
                    pairs[((s * parts + part) * WIDE_ROWS + r) * 2] = m
                    pairs[((s * parts + part) * WIDE_ROWS + r) * 2 + 1] = all_of
                r = types.int32(r + THREADS // TEAM)
            wait_for_all(counters, s, parts)
            r, part_of = types.int32(t // FAR_TEAM), types.int32(t % FAR_TEAM)
            while r < WIDE_ROWS:
                m, all_of = far_pair(pairs, s * parts * WIDE_ROWS + r, parts, part_of)
                if part_of == 0:
                    maxima[r] = finite(m)
                    sums[r] = ONE / all_of
                r = types.int32(r + THREADS // FAR_TEAM)
            cuda.syncthreads()

            following = s + at_once
            f = min(following, every - 1)
            next_source, next_target, next_count = place(
                f, t, across, neighbours, n, x_group, x_step, out_group, out_step, part, share
            )
            if following >= every:
                next_count = types.int32(0)
            for j in range(VEC):
                shift[j] = maxima[t % LANES * VEC + j]
                factor = sums[t % LANES * VEC + j]
                total[j] = factor
                if not PACKED:  # in registers there are exponentials already
                    total[j] *= exponential(top[j] - shift[j])
                top[j] = factor
            cuda.syncthreads()  # all have what they need: the memory of the pairs is the next tile's
            for tile in range(TILES):
                finishes(held, tile * WORDS, shift, total)
            for tile in range(TILES):
                store_vector(out, target + tile * out_stride, held, tile * WORDS, tile < count)
            read_held(x, next_source, x_stride, next_count, held)
            k = types.int32(TILES)
            while k + FEW <= count:
                for tile in range(FEW):
                    load_tile(memory, mine + (k - TILES + tile) * stride, row, tile * WORDS)
                give(row, shift, top)
                for tile in range(FEW):
                    store_vector(out, target + (k + tile) * out_stride, row, tile * WORDS, True)
                    if k + tile < next_count:
                        copy_in(x, next_source + (k + tile) * x_stride, memory, mine + (k - TILES + tile) * stride)
                k = types.int32(k + FEW)
            while k < count:
                load_tile(memory, mine + (k - TILES) * stride, row, 0)
                give_one(row, shift, top)
                store_vector(out, target + k * out_stride, row, 0, True)
                if k < next_count:
                    copy_in(x, next_source + k * x_stride, memory, mine + (k - TILES) * stride)
                k = types.int32(k + 1)
            while k < next_count:
                copy_in(x, next_source + k * x_stride, memory, mine + (k - TILES) * stride)
                k = types.int32(k + 1)
            source, target, count = next_source, next_target, next_count
            s = following

    arguments = (pointer(dtype), types.CPointer(kind), types.CPointer(types.int64), pointer(dtype), *COLUMN_OFFSETS)
    return Source(turns, arguments, threads, (dtype, lanes, tiles, threads, resident), resident)


def turns_shape(c: Columns, device: torch.device) -> tuple[int, int, int, int] | None:
    """``(parts, share, kept, at_once)``: blocks to a tile, elements of a row for each, vectors that a thread has in
    shared memory, and how many tiles are taken at once; None where all blocks don't hold a tile."""
    blocks = TURNS_BLOCKS * multiprocessors(device)
    static = 2 * TURNS_THREADS * c.vec * itemsize("float32")
    room = shared_of(device, TURNS_BLOCKS) - static
    depths = TURNS_THREADS // TURNS_LANES
    rounds = -(-c.n // depths)
    parts = -(-rounds // (TURNS_TILES + max(0, room // (TURNS_THREADS * VECTOR_BYTES))))
    if parts > blocks:
        return None
    every = c.tiles(TURNS_LANES)
    turns = -(-every // (blocks // parts))
    at_once = -(-every // turns)
    held = -(-rounds // min(blocks // at_once, rounds))
    parts = -(-rounds // held)
    return parts, held * depths, max(0, held - TURNS_TILES), at_once


def plan_turns(v: View, device: torch.device, c: Columns, shape: tuple[int, int, int, int]) -> BindView:
    parts, share, kept, at_once = shape
    every = c.tiles(TURNS_LANES)
    source = turns_kernel(v.dtype, TURNS_LANES, TURNS_TILES, TURNS_THREADS, TURNS_BLOCKS)
    call = prepare(source, device).call(
        *(at_once * parts, *c.offsets, parts, share),
        threads=TURNS_THREADS,
        shared=kept * TURNS_THREADS * VECTOR_BYTES,
        cooperative=True,
    )

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(every * parts * TURNS_LANES * c.vec * 2, dtype=torch.float32, device=device)
        counters = torch.zeros(every, dtype=torch.int64, device=device)
        return owning(call(x, pairs, counters, out), pairs, counters)

    return bind


# ---------------------------------------------------------------------------------------------------------------------


SINGLE_LONG = 128  # elements of a column at an odd width, up to which a block has them in registers
COLUMN_LONG = 512  # the same, of vectors, 64 bytes across
ALONE_LONG = 1024  # up to which one block has them in shared memory, 64 bytes across
PORTABLE = 8  # blocks to a cluster; of 16, more SMs are left without one


def on_columns(v: View, device: torch.device, most_blocks: int, *, alone: bool = False) -> BindView | None:
    """A call by columns, in clusters of up to so many blocks, or by the whole grid unless a block is to be ``alone``;
    None if nothing here is for such rows."""
    together = has_clusters(device) and not alone
    c = columns_of.columns(v)
    if c is None:
        return _on_odd_columns(v, device, most_blocks, together)
    if c.n > COLUMN_LONG:
        held = held_shape(c, v.dtype, device, min(most_blocks, PORTABLE))
        if held is not None and c.tiles(held.lanes) * held.blocks <= GRID_LIMIT:
            return plan_held(v, device, c, held)
        turns = turns_shape(c, device) if together and itemsize(v.dtype) <= 4 else None
        if turns is not None:
            return plan_turns(v, device, c, turns)
    return _in_registers(v, device, c, most_blocks)


def _on_odd_columns(v: View, device: torch.device, most_blocks: int, together: bool) -> BindView | None:
    c = columns_of.flat_columns(v)
    shape = flat_shape(c, v.dtype) if c is not None and together else None
    if c is not None and shape is not None:
        return plan_flat(v, device, c, *shape)
    c = columns_of.single_columns(v)
    if c is None or c.n <= SINGLE_LONG:
        return None
    held = held_shape(c, v.dtype, device, most_blocks)  # none of halves, which cannot be copied one by one
    if held is not None and c.tiles(held.lanes) * held.blocks <= GRID_LIMIT:
        return plan_held(v, device, c, held)
    ragged = ragged_shape(c, v.dtype, device, most_blocks) if together else None
    if ragged is not None and c.groups * -(-c.neighbours // WARP) * ragged.blocks <= GRID_LIMIT:
        return plan_ragged(v, device, c, ragged)
    return None


def _in_registers(v: View, device: torch.device, c: Columns, most_blocks: int) -> BindView | None:
    shape = columns_shape(c, v.dtype, most_blocks)
    if shape is None or c.tiles(shape[0]) * shape[2] > GRID_LIMIT:
        return None
    lanes, tiles, blocks, threads = shape
    kernel = prepare(columns_kernel(v.dtype, lanes, tiles, blocks > 1), device)
    grid, share = c.tiles(lanes) * blocks, -(-c.n // blocks)
    return kernel.call(grid, *c.offsets, blocks, share, threads=threads, cluster=blocks)
