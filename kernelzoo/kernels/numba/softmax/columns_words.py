"""What kernels of softmax by columns have in common.

A thread reads vectors of 16 bytes across the rows, so that it has a (max, sum) pair for each element of a vector, which
it meets with other threads' pairs of the same rows. Where the elements stay meanwhile is what the forms differ in.
"""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.columns import cluster_words
from kernelzoo.kernels.numba.dtypes import WIDE, lowest, one
from kernelzoo.kernels.numba.launch import shared_bytes
from kernelzoo.kernels.numba.row import Tiling
from kernelzoo.kernels.numba.softmax.arithmetic import finite_of
from kernelzoo.kernels.numba.words import EVERY_LANE, WARP, exponential, machine, maximum

TEAM = 8
"""Lanes that merge a row's pairs; a warp has whole teams."""
MOST_BLOCKS = 16
"""In a cluster."""
BARRIER_BYTES = 16
"""For a cluster's barrier, up to where dynamic shared memory may begin."""


count_up, seen = machine.count_up, machine.seen


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
    _, cluster_wait, send, wait_for = cluster_words(in_clusters)

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


def abreast(device: Device) -> int:
    """Multiprocessors whose blocks may wait for each other; in the simulator, which runs one at a time, 1."""
    return device.multiprocessors if device.arch else 1


def shared_of(device: Device, blocks: int) -> int:
    """Bytes of shared memory for each of so many blocks on an SM, of which the driver takes a kilobyte."""
    return min((shared_bytes(device) + 3072) // blocks - 1024, shared_bytes(device))
