"""A row on chip in several blocks: what forms that do so have in common."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba.device_functions import EVERY_LANE, WARP, exponential, machine, maximum
from kernelzoo.kernels.numba.dtypes import lowest
from kernelzoo.kernels.numba.launch import View
from kernelzoo.kernels.numba.row import Tiling, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic

HELD = 8
"""Vectors that a thread of a block of 512 has in registers, beside a batch of as many more."""
MOST_WARPS = 32
"""In a block."""


def warp_pair_of(finite: Any) -> Any:
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
    warp_pair = warp_pair_of(finite)

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


def share_of(v: View, blocks: int, threads: int, tiles: int) -> tuple[int, int]:
    """``(share, kept)``: elements of a row for each block, in whole lines of 128 bytes; and how many vectors a thread
    keeps in shared memory, past the ``tiles`` in its registers."""
    vectors = -(-max(1, v.n // v.vec) // (blocks * 8)) * 8
    return vectors * v.vec, max(0, -(-vectors // threads) - tiles)
