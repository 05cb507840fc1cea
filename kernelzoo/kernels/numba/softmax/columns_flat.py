"""Few columns at whatever width, as one piece of memory: the whole grid reads it in one co-operative launch."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import in_one_piece, in_step, period
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, shared_bytes
from kernelzoo.kernels.numba.row import Tiling, elements, spread, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import finite_of
from kernelzoo.kernels.numba.softmax.columns_words import TEAM, abreast, by_column, running, teams, wait_for_all
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import ALIGNED, EVERY_LANE, WARP, exponential, machine, maximum
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register

ID = "numba/softmax/columns_flat"
FLAT_THREADS = 512
"""Of a block, at most."""
FLAT_TILES = 8
"""Vectors of a thread in registers."""


@cache
def flat_kernel(dtype: str, tiles: int) -> Source:
    """Few rows side by side, at whatever width: the whole grid reads them as one piece of memory (co-operative launch).

    Threads go round the rows together: ``around`` vectors hold each row equally often, so that each place in a thread's
    vectors, which are that many apart, is of the same row. Where that takes more threads than a block has, ``slices``
    blocks of ``active`` go round. Blocks take rounds in turn. Of its vectors a thread
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

    def flat(x, pairs, counters, out, rows, n, active, around, slices, kept):
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
        begin = block % slices * active
        first, apart = block // slices * around + begin + t, blocks // slices * around
        own = min(active, around - begin)
        last = vectors if t < own else types.int64(0)
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
        filled = own * VEC
        groups = threads // rows
        if groups > TEAM:  # so few rows that a block goes round alone, and more threads than a team's have work
            m, s = LOWEST, ZERO
            i = t if t < groups * rows else filled
            while i < filled:
                grown = maximum(m, maxima[i])
                s = s * exponential(m - finite(grown)) + sums[i] * exponential(maxima[i] - finite(grown))
                m = grown
                i += groups * rows
            cuda.syncthreads()
            maxima[t], sums[t] = m, s
            cuda.syncthreads()
            filled = groups * rows
        skew = begin * VEC % rows  # the row of the block's first place
        r = t // TEAM
        while r - t // TEAM < rows:  # whole warps, for the shuffles
            row = min(r, rows - 1)
            place = row - skew if row >= skew else row - skew + rows
            places = types.int32((filled - place + rows - 1) // rows) if place < filled else types.int32(0)
            m, s = meet(maxima, sums, places, rows, place, part)
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
            row = ((begin + t) * VEC + k) % rows
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

    return Source(flat, (dtype, kind, types.int64, dtype), FLAT_THREADS, (dtype, tiles))


def takes(v: View, device: Device) -> bool:
    """Whether these are columns in one piece of memory, whose pairs a block's shared memory has room for."""
    c = in_one_piece(v)
    if c is None or c.itemsize > 4 or c.inner > FLAT_THREADS * v.whole_vector:
        return False
    return cdiv(period(c), FLAT_THREADS) <= abreast(device)


def alone(v: View) -> bool:
    """Whether the threads of one block go round them together."""
    c = in_one_piece(v)
    return c is not None and c.itemsize <= 4 and in_step(c, FLAT_THREADS) > 0


@register("numba", "softmax", "columns_flat")
@planned()
def columns_flat(v: View, device: Device, _: None) -> BindView:
    """Few columns, as one piece of memory, by the whole grid in one co-operative launch."""
    c = in_one_piece(v)
    if c is None or not takes(v, device):
        raise UnsupportedProblemError(ID, "these are not few columns in one piece of memory")
    vec, around = v.whole_vector, in_step(c, FLAT_THREADS) or period(c)
    slices = cdiv(around, FLAT_THREADS)
    active = cdiv(around, slices)
    threads, vectors = cdiv(active, WARP) * WARP, c.n * c.inner // vec
    blocks = max(1, min(abreast(device), vectors // (active * FLAT_TILES // 2)) // slices) * slices
    room = shared_bytes(device) - 2 * FLAT_THREADS * vec * itemsize("float32")
    kept = min(max(0, room) // (threads * VECTOR_BYTES), cdiv(vectors, blocks // slices * around))
    return prepare(flat_kernel(c.dtype, FLAT_TILES), device).call_with_workspace(
        *(blocks * c.inner * 2, 1),
        *(blocks, c.inner, c.n, active, around, slices, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cooperative=True,
    )
