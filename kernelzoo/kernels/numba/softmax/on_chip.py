"""Rows that several blocks keep on chip: the code that such forms share."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.device_functions import WARP, exponential, maximum
from kernelzoo.kernels.numba.dtypes import register_type
from kernelzoo.kernels.numba.softmax.arithmetic import softmax_functions, state_functions, type_and_constants
from kernelzoo.kernels.numba.tiling import RowView, Tiling
from kernelzoo.layout import cdiv

HELD = 8
"""Vectors in registers of a thread, in a block of 512. Another batch of as many fits too."""
MOST_WARPS = 32
"""The most warps of a block."""


@cache
def on_chip_row_functions(dtype: str, tiling: Tiling, *, keep_in_l2: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return ``copy_share``, ``online_update``, ``merge_states`` and ``store_share`` for a block's part of a row.

    Each thread has ``tiling.tiles`` vectors in registers, and ``kept`` more in ``memory``, its part of shared memory.
    ``copy_share(x, source, t, threads, first, last, memory, kept)`` starts to copy vectors to ``memory``.
    ``online_update(memory, t, threads, first, last, kept, m, s)`` adds them to the (max, sum) state. In float64, whose
    exponential is slow, it finds the maximum first, and stores exponentials. ``merge_states(maxima, sums, count)``
    merges states, alike in each warp. ``store_share(...)`` stores results of the vectors in ``memory``. Its argument
    ``own`` is the maximum that ``online_update`` returned."""
    _, ZERO, _, LOWEST = type_and_constants(dtype)
    VEC, TILES, ONCE = tiling.vec, tiling.tiles, dtype == "float64"
    WORD, WORDS = register_type(dtype, VEC), tiling.registers(dtype) // TILES
    finite, thread_max, thread_sum, normalize, rescale = softmax_functions(dtype, VEC, WORDS)
    _, rescale_sum, warp_merge = state_functions(dtype)
    _, store_vector = machine.vector_functions(dtype, VEC, keep_in_l2=keep_in_l2)
    copy_vector, wait_copies, load_shared, store_shared = machine.shared_memory_functions(dtype)

    @cuda.jit(device=True, inline="always")
    def copy_share(x, source, t, threads, first, last, memory, kept):
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                copy_vector(x, source + i, memory, (k * threads + t) * VEC)
            i += threads * VEC

    @cuda.jit(device=True, inline="always")
    def online_update(memory, t, threads, first, last, kept, m, s):
        vector = cuda.local.array(WORDS, WORD)
        wait_copies()
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_shared(memory, (k * threads + t) * VEC, vector, 0)
                more = maximum(m, thread_max(vector, 0))
                s = rescale_sum(m, s, more) + thread_sum(vector, 0, finite(more))
                m = more
            i += threads * VEC
        return m, s

    @cuda.jit(device=True, inline="always")
    def update_once(memory, t, threads, first, last, kept, m, s):
        vector = cuda.local.array(WORDS, WORD)
        wait_copies()
        more = m
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_shared(memory, (k * threads + t) * VEC, vector, 0)
                more = maximum(more, thread_max(vector, 0))
            i += threads * VEC
        s = rescale_sum(m, s, more)
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_shared(memory, (k * threads + t) * VEC, vector, 0)
                s += thread_sum(vector, 0, finite(more))
                for j in range(VEC):
                    store_shared(memory, (k * threads + t) * VEC + j, vector[j])
            i += threads * VEC
        return more, s

    @cuda.jit(device=True, inline="always")
    def merge_states(maxima, sums, count):
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
        return warp_merge(m, s)

    @cuda.jit(device=True, inline="always")
    def store_share(memory, out, target, t, threads, first, last, kept, own, shift, scale):
        vector = cuda.local.array(WORDS, WORD)
        if ONCE:
            scale = rescale(own, shift, scale)
        i = first + (TILES * threads + t) * VEC
        for k in range(kept):
            if i < last:
                load_shared(memory, (k * threads + t) * VEC, vector, 0)
                if not ONCE:
                    thread_sum(vector, 0, shift)
                normalize(vector, 0, shift, scale)
                store_vector(out, target + i, vector, 0, True)
            i += threads * VEC

    return copy_share, update_once if ONCE else online_update, merge_states, store_share


def share_per_block(v: RowView, blocks: int, threads: int, tiles: int) -> tuple[int, int]:
    """Return ``(share, kept)``. Each block has ``share`` elements of a row, a multiple of 128 bytes. A thread keeps
    ``kept`` vectors in shared memory, in addition to ``tiles`` vectors in registers."""
    vectors = cdiv(v.vectors_per_row, blocks * 8) * 8
    return vectors * v.vec, max(0, cdiv(vectors, threads) - tiles)
