"""Strips of columns: rows side by side, whole by one block each or shared in a cluster, by one kernel."""

from dataclasses import dataclass
from functools import cache
from math import gcd

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import cluster_words, offsets, quotient, side_by_side
from kernelzoo.kernels.numba.dtypes import WIDE, highest, itemsize
from kernelzoo.kernels.numba.launch import BindView, View, prepare, within_grid
from kernelzoo.kernels.numba.min.words import by_column, deep
from kernelzoo.kernels.numba.row import Tiling, elements, spread, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import WARP, machine, minimum
from kernelzoo.layout import VECTOR_BYTES, Columns, Rows, cdiv, power_of_two
from kernelzoo.tables import knob, numbers

MOST_THREADS = 512
"""Of a block."""
AT_ONCE = 8
"""Vectors for each thread, or there are fewer threads."""
CLUSTER = 8
"""Blocks that share a strip, at most: as many as every device with clusters runs."""
NARROW = 4
"""Vectors across, where the device is idle otherwise: 64 bytes, with which less of each line is used."""
MOST_WIDE = 256
"""Rows of a strip: what a cluster of 8 has of them fits 48 kB of shared memory in every dtype."""


@numbers
class Numbers:
    """What depends on the card. Shipped values are an H200's."""

    columns_percent: int = knob(
        60, among=(30, 60, 100, 200), unit="% of the SMs", why="with strips of columns, below which clusters share them"
    )


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
    combine, unfold = by_column(dtype, VEC, WORDS)
    cluster_arrive, cluster_wait, send, wait_for = cluster_words(in_clusters)
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

    return Source(columns, (dtype, dtype), MOST_THREADS, (dtype, tiles, in_clusters), 2)


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


def strips(v: Rows, lanes: int, threads: int) -> tuple[Columns, Strips] | None:
    """Strips of up to so many vectors, for blocks of up to so many threads; None if vectors don't cover the rows."""
    c = side_by_side(v)
    vec = v.whole_vector
    if c is None or not vec <= c.inner <= c.x_n or (c.outer > 1 and c.x_outer < c.inner):
        return None
    extra = vec - 1 if c.vector == 1 else 0  # elements of neighbours beside the rows of a strip
    period = vec // gcd(vec, c.x_n)
    most = min(lanes, MOST_WIDE // vec, threads // period) * vec - extra
    across = cdiv(c.inner, most)
    wide = cdiv(c.inner, across)
    if not extra:
        wide = cdiv(wide, vec) * vec
    lanes = cdiv(wide + extra, vec)
    depths = min(threads // lanes // period, cdiv(c.n, AT_ONCE * period)) * period
    return c, Strips(across, lanes, wide, depths)


def are_few(c: Columns, s: Strips, blocks: int, processors: int) -> bool:
    """Whether so many blocks to a strip leave two thirds of the device idle, with several batches for each thread."""
    return 3 * c.outer * s.across * blocks < processors and c.n >= 4 * blocks * s.depths * AT_ONCE


def cut(v: Rows, processors: int, numbers: Numbers, most_blocks: int) -> tuple[Columns, Strips, int] | None:
    """Columns, their strips, and the blocks of a cluster that share one; None where vectors don't cover them.

    Strips are narrow, 128 bytes, and deep, so that blocks meet little; wider where that alone makes more blocks than
    run at once, so that each has more to read. A block has twice the threads where an SM gets but one; not in clusters
    of more than two, unless even those are too few for the device.
    """
    found = None
    for lanes in (8, 16, 32, 64):
        found = strips(v, lanes, MOST_THREADS // 2)
        if found is None or found[0].outer * found[1].across <= 2 * processors:
            break
    if found is None:
        return None
    c, s = found
    tiles = c.outer * s.across
    blocks = 1
    if tiles <= processors:
        wanted = power_of_two(cdiv(numbers.columns_percent * processors, 100 * tiles))
        if not 2 < wanted <= most_blocks:
            c, s = strips(v, lanes, MOST_THREADS) or found
        if are_few(c, s, most_blocks, processors):
            c, s = strips(v, NARROW, MOST_THREADS) or found
        blocks = max(1, min(most_blocks, wanted, power_of_two(c.n // (s.depths * AT_ONCE))))
    return c, s, blocks


def by_strips(id: str, v: View, device: Device, numbers: Numbers, most_blocks: int) -> BindView:
    """A call of the kernel, in clusters of up to so many blocks."""
    found = cut(v, device.multiprocessors, numbers, most_blocks)
    if found is None:
        raise UnsupportedProblemError(id, "these are no columns side by side that are as wide as a vector")
    c, s, blocks = found
    grid = within_grid(id, c.outer * s.across * blocks)
    kernel = prepare(columns_kernel(v.dtype, deep(v.dtype, v.whole_vector), blocks > 1), device)
    return kernel.call(grid, *offsets(c), v.x_phase, blocks, *s.offsets, threads=s.threads, cluster=blocks)
