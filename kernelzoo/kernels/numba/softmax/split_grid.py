"""A row on chip in blocks anywhere on the device, all of which run at once: one co-operative launch."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import ALIGNED, WARP, exponential, machine, maximum
from kernelzoo.kernels.numba.dtypes import STORAGE, WIDE, itemsize, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare, shared_bytes
from kernelzoo.kernels.numba.row import Tiling, access, begin, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax.holding import HELD, MOST_WARPS, holding, share_of, warp_pair_of
from kernelzoo.kernels.numba.source import Source
from kernelzoo.layout import VECTOR_BYTES, cdiv
from kernelzoo.registry import register


@cache
def grid_kernel(dtype: str, tiling: Tiling) -> Source:
    """As split_cluster's kernel, for blocks anywhere on the device, all of which run at once (a co-operative launch).

    ``chunks`` blocks leave their pairs in memory and wait for each other at a counter, which only ever grows. What is
    held neither in registers nor in shared memory, which takes whole vectors alone, is read a second time, from the L2
    cache with luck.
    """
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS, SIZE, VEC = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.vec
    storage = STORAGE[dtype]
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    finite, top, total, finish, rescale = arithmetic(dtype, tiling.vec, WORDS)
    start, take, meet, write_kept = holding(dtype, tiling)
    warp_pair = warp_pair_of(finite)
    count_up, seen = machine.count_up, machine.seen
    KEEPS = VECTOR_BYTES // itemsize(dtype) == VEC

    def grid(
        x, pairs, counters, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        chunks, share, kept,
    ):  # fmt: skip
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
            if KEEPS:
                start(x, source, t, threads, first, last, memory, kept)
            edge = LOWEST
            if chunk == 0:
                edge = read_edge(x, source, t, head, end, n)
            held_top = maximum(top(row, 0), edge)
            own = finite(held_top)
            m, s = held_top, total(row, 0, own) + exponential(edge - own)
            if KEEPS:
                m, s = take(memory, t, threads, first, last, kept, m, s)
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
            if KEEPS:
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

    return Source(grid, (dtype, kind, types.int64, dtype), tiling.threads, (dtype, tiling))


def grid_tiling(v: View) -> Tiling:
    """512 threads with 128 registers each, which hold two batches of 8 vectors; one in float64, for its exponential."""
    return Tiling(512, 1, HELD if v.dtype != "float64" else 4, v.vec, v.edges, flexible=True)


def grid_shape(v: View, device: Device) -> tuple[int, int]:
    """``(chunks, threads)``: all SMs on the rows there are; of more rows, some in turn on as many SMs as hold one."""
    vectors, threads, processors = max(1, v.n // v.vec), 512, device.multiprocessors
    capacity = threads * HELD + (shared_bytes(device) // VECTOR_BYTES if v.whole else 0)
    chunks = processors // v.total if v.total <= processors else min(processors, cdiv(vectors, capacity))
    return min(chunks, max(1, vectors // threads)), threads


@register("numba", "softmax", "split_grid")
@planned()
def split_grid(v: View, device: Device, _: None) -> BindView:
    """All blocks of the device on the rows in hand, which they hold on chip while they wait for each other."""
    chunks, threads = grid_shape(v, device)
    tiling = grid_tiling(v)
    share, kept = share_of(v, chunks, threads, tiling.tiles)
    kept = min(kept, shared_bytes(device) // (threads * VECTOR_BYTES)) if v.whole else 0
    groups = min(v.total, device.multiprocessors // chunks)
    return prepare(grid_kernel(v.dtype, tiling), device).call_with_workspace(
        *(v.total * chunks * 2, v.total),
        *(groups * chunks, *v.offsets, chunks, share, kept),
        threads=threads,
        shared=kept * threads * VECTOR_BYTES,
        cooperative=True,
    )
