"""Columns on chip in blocks anywhere on the device, which stay and take one tile of rows after the other."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import in_vectors, offsets
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare
from kernelzoo.kernels.numba.row import Tiling, spread, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import finite_of
from kernelzoo.kernels.numba.softmax.columns_words import (
    TEAM,
    abreast,
    by_column,
    running,
    shared_of,
    teams,
    wait_for_all,
)
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, EVERY_LANE, exponential, machine, maximum
from kernelzoo.layout import VECTOR_BYTES, Columns, cdiv
from kernelzoo.registry import register

ID = "numba/softmax/columns_grid"
TURNS_LANES = 16
"""Vectors of a tile side by side."""
TURNS_TILES = 8
"""Vectors of a thread in registers."""
TURNS_THREADS = 256
"""Of a block."""
TURNS_BLOCKS = 2
"""On an SM."""


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

    def turns(x, pairs, counters, out, groups, neighbours, n, x_group, x_step, out_group, out_step, parts, share):
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

    return Source(turns, (dtype, kind, types.int64, dtype), threads, (dtype, lanes, tiles, threads, resident), resident)


def shape(c: Columns, device: Device) -> tuple[int, int, int, int] | None:
    """``(parts, share, kept, at_once)``: blocks to a tile, elements of a row for each, vectors that a thread has in
    shared memory, and how many tiles are taken at once; None where all blocks don't hold a tile."""
    if c.itemsize > 4:
        return None
    blocks = TURNS_BLOCKS * abreast(device)
    static = 2 * TURNS_THREADS * c.vector * itemsize("float32")
    room = shared_of(device, TURNS_BLOCKS) - static
    depths = TURNS_THREADS // TURNS_LANES
    rounds = cdiv(c.n, depths)
    parts = cdiv(rounds, TURNS_TILES + max(0, room // (TURNS_THREADS * VECTOR_BYTES)))
    if parts > blocks:
        return None
    every = c.strips(TURNS_LANES * c.vector)
    turns = cdiv(every, blocks // parts)
    at_once = cdiv(every, turns)
    held = cdiv(rounds, min(blocks // at_once, rounds))
    parts = cdiv(rounds, held)
    return parts, held * depths, max(0, held - TURNS_TILES), at_once


@register("numba", "softmax", "columns_grid")
@planned()
def columns_grid(v: View, device: Device, _: None) -> BindView:
    """Columns shared by blocks of one co-operative launch, which take tile after tile."""
    c = in_vectors(v)
    found = shape(c, device) if c is not None else None
    if c is None or found is None:
        raise UnsupportedProblemError(ID, "these are no columns of which all blocks together hold a tile")
    parts, share, kept, at_once = found
    every = c.strips(TURNS_LANES * c.vector)
    source = turns_kernel(c.dtype, TURNS_LANES, TURNS_TILES, TURNS_THREADS, TURNS_BLOCKS)
    return prepare(source, device).call_with_workspace(
        *(every * parts * TURNS_LANES * c.vector * 2, every),
        *(at_once * parts, *offsets(c), parts, share),
        threads=TURNS_THREADS,
        shared=kept * TURNS_THREADS * VECTOR_BYTES,
        cooperative=True,
    )
