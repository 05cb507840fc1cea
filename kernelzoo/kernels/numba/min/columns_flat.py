"""Few rows side by side, at whatever width, as one piece of memory; blocks meet at the last one to arrive."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.columns import in_one_piece, in_step
from kernelzoo.kernels.numba.dtypes import WIDE, highest, itemsize
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare
from kernelzoo.kernels.numba.min.words import by_column, deep
from kernelzoo.kernels.numba.row import Tiling, elements, spread, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import arrive, machine, minimum
from kernelzoo.layout import VECTOR_BYTES
from kernelzoo.registry import register

ID = "numba/min/columns_flat"
FLAT_THREADS = 512
"""Of a block."""
FLAT_BLOCKS = 2
"""On an SM."""


@cache
def flat_kernel(dtype: str, tiles: int) -> Source:
    """Few rows side by side, at whatever width, as one piece of memory: threads go round the rows together, so that
    each place in a thread's vectors is of the same row. Blocks meet at the last one to arrive, as in ``split_kernel``.
    """
    kind, HIGHEST = WIDE[dtype], highest(dtype)
    VEC, TILES, THREADS = VECTOR_BYTES // itemsize(dtype), tiles, FLAT_THREADS
    WORD, WORDS = word_type(dtype, VEC), Tiling(1, 1, 1, VEC).words(dtype)
    HELD, SLOTS = WORDS * tiles, FLAT_THREADS * VEC
    IDENTITY = spread(dtype, VEC, HIGHEST)
    load_vector, _ = machine.vector_functions(dtype, VEC)
    load, store = elements(dtype)
    combine, unfold = by_column(dtype, VEC, WORDS)

    @cuda.jit(device=True, inline="always")
    def meet(places, rows, t, sharer, sharers):
        left = sharers
        while left > 1:  # the upper half of a row's sharers, each with one of the lower
            half = (left + 1) // 2
            if sharer + half < left:
                places[t] = minimum(places[t], places[t + half * rows])
            cuda.syncthreads()
            left = half

    def flat(x, partials, counters, out, rows, n, active, out_step):
        held = cuda.local.array(HELD, WORD)
        least = cuda.local.array(WORDS, WORD)
        own = cuda.local.array(VEC, kind)
        places = cuda.shared.array(SLOTS, kind)
        is_last = cuda.shared.array(1, types.int32)
        t = types.int64(cuda.threadIdx.x)
        block, blocks = types.int64(cuda.blockIdx.x), types.int64(cuda.gridDim.x)
        count = rows * n
        vectors = count // VEC
        share = ((vectors + active - 1) // active + blocks - 1) // blocks * active
        i = block * share + t
        last = min(block * share + share, vectors) if t < active else types.int64(0)
        for k in range(WORDS):
            least[k] = IDENTITY
        while i < last:
            for tile in range(TILES):
                for k in range(WORDS):
                    held[tile * WORDS + k] = IDENTITY
                at = i + tile * active
                load_vector(x, at * VEC, held, tile * WORDS, at < last)
            for tile in range(TILES):
                for k in range(WORDS):
                    least[k] = combine(least[k], held[tile * WORDS + k])
            i += TILES * active
        unfold(least, own)
        for k in range(VEC):
            places[t * VEC + k] = own[k]
        cuda.syncthreads()

        # Of each row: its places by as many threads as there are for it, then these by halves.
        sharers = THREADS // rows
        row, sharer = t % rows, t // rows
        value = HIGHEST
        if sharer < sharers:
            i = t
            while i < active * VEC:
                value = minimum(value, places[i])
                i += sharers * rows
            i = vectors * VEC if block == 0 and sharer == 0 else count
            while i < count:  # what is left over after the last whole vector
                if i % rows == row:
                    value = minimum(value, load(x, i))
                i += 1
        cuda.syncthreads()
        places[t] = value
        cuda.syncthreads()
        meet(places, rows, t, sharer, sharers)
        if t < rows:
            partials[block * rows + t] = places[t]
        cuda.syncthreads()
        if t == 0:
            is_last[0] = 1 if arrive(counters, types.int64(0), blocks - 1) == blocks - 1 else 0
        cuda.syncthreads()
        if is_last[0] == 1:
            value = HIGHEST
            if sharer < sharers:
                i = sharer
                while i < blocks:
                    for step in range(8):  # all on their way before the first is waited for
                        part = min(i + step * sharers, blocks - 1)
                        value = minimum(value, partials[part * rows + row])
                    i += 8 * sharers
            places[t] = value
            cuda.syncthreads()
            meet(places, rows, t, sharer, sharers)
            if t < rows:
                store(out, t * out_step, places[t])

    return Source(flat, (dtype, kind, types.int32, dtype), FLAT_THREADS, (dtype, tiles), FLAT_BLOCKS)


def takes(v: View) -> bool:
    """Whether these are columns in one piece of memory, so few that a block has two threads for each."""
    c = in_one_piece(v)
    return c is not None and c.inner <= FLAT_THREADS // 2


@register("numba", "min", "columns_flat")
@planned()
def columns_flat(v: View, device: Device, _: None) -> BindView:
    """Few columns, at whatever width, as one piece of memory; blocks meet at the last one to arrive."""
    c = in_one_piece(v)
    if c is None or not takes(v):
        raise UnsupportedProblemError(ID, f"these are not up to {FLAT_THREADS // 2} columns in one piece of memory")
    active, tiles = in_step(c, FLAT_THREADS), deep(v.dtype, v.whole_vector)
    blocks = max(1, min(FLAT_BLOCKS * device.multiprocessors, c.n * c.inner // (v.whole_vector * tiles * active)))
    kernel = prepare(flat_kernel(v.dtype, tiles), device)
    return kernel.call_with_workspace(blocks * c.inner, 1, blocks, c.inner, c.n, active, c.out_inner)
