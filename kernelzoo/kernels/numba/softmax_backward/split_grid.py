"""A row shared by blocks anywhere on the device, all of which run at once: one co-operative launch."""

from dataclasses import replace
from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare
from kernelzoo.kernels.numba.row import Tiling, access, reductions, seat_of, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import add, arithmetic, whole
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import EVERY_LANE, WARP, machine
from kernelzoo.layout import cdiv
from kernelzoo.registry import register

THREADS = 512
"""Of a block, with 128 registers each: 32 for what stays of both inputs, and half as many for a batch more."""
LINE = 8
"""Vectors: a block's share begins on a line of the cache, where the row does."""


@cache
def grid_kernel(dtype: str, tiling: Tiling) -> Source:
    """``chunks`` blocks to a row, of ``share`` elements each, leave their sums in memory and wait for each other at a
    counter, which only ever grows; every block then adds up the same sums in the same order. Each has the first batch
    of its share in registers; what is beyond is read a second time, from the L2 cache with luck."""
    kind = WIDE[dtype]
    ZERO: Any = type(one(dtype))(0)
    WORD, WORDS, SIZE, SCRATCH = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size, tiling.scratch
    batch = replace(tiling, tiles=max(1, tiling.tiles // 2))
    BATCH_WORDS, BATCH = batch.words(dtype), batch.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, ZERO)
    _, read_more, write_more, _, _ = access(dtype, batch, ZERO)
    _, _, reduce_sum = reductions(tiling, ZERO)
    products, finish = arithmetic(dtype, tiling.vec, WORDS)
    products_more, finish_more = arithmetic(dtype, tiling.vec, BATCH_WORDS)
    count_up, seen = machine.count_up, machine.seen

    def grid(
        grad, y, sums, counters, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, chunks, share,
    ):  # fmt: skip
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        more_grads = cuda.local.array(BATCH_WORDS, WORD)
        more_weights = cuda.local.array(BATCH_WORDS, WORD)
        scratch = cuda.shared.array(SCRATCH, kind)
        t, threads = types.int64(cuda.threadIdx.x), types.int64(cuda.blockDim.x)
        block = types.int64(cuda.blockIdx.x)
        groups = types.int64(cuda.gridDim.x) // chunks
        r, chunk = block // chunks, block % chunks
        while r < rows:
            outer, place = seat_of(r, inner)
            source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
            target = outer * out_outer + place * out_inner
            head, end = bounds(phase + source, n)
            first = head + chunk * share
            last = min(first + share, end)
            read(grad, source, x_step, t, threads, first, last, grads, 0)
            read(y, other, y_step, t, threads, first, last, weights, 0)
            edge, weight = ZERO, ZERO
            if chunk == 0:
                edge = read_edge(grad, source, t, head, end, n)
                weight = read_edge(y, other, t, head, end, n)
            total, carry = edge * weight, ZERO
            total, carry = add(total, carry, products(grads, weights, 0))
            beyond = first + threads * SIZE
            i = beyond
            while i < last:
                read_more(grad, source, x_step, t, threads, i, last, more_grads, 0)
                read_more(y, other, y_step, t, threads, i, last, more_weights, 0)
                total, carry = add(total, carry, products_more(more_grads, more_weights, 0))
                i += threads * BATCH

            total = reduce_sum(whole(total, carry), scratch)
            if t == 0:
                sums[r * chunks + chunk] = total
                before = count_up(counters, r)
                complete = (before // chunks + 1) * chunks
                while seen(counters, r) < complete:
                    pass
            cuda.syncthreads()
            total = ZERO
            part = t % WARP
            while part < chunks:
                total += sums[r * chunks + part]
                part += WARP
            for step in range(5):
                total += cuda.shfl_xor_sync(EVERY_LANE, total, 16 >> step)

            while i > beyond:  # backwards: what was read last is the likeliest to be in the cache still
                i -= threads * BATCH
                read_more(grad, source, x_step, t, threads, i, last, more_grads, 0)
                read_more(y, other, y_step, t, threads, i, last, more_weights, 0)
                finish_more(more_grads, more_weights, 0, total)
                write_more(out, target, out_step, t, threads, i, last, more_grads, 0)
            finish(grads, weights, 0, total)
            write(out, target, out_step, t, threads, first, last, grads, 0)
            if chunk == 0:
                write_edge(out, target, t, head, end, n, weight * (edge - total))
            r += groups

    return Source(grid, (dtype, dtype, kind, types.int64, dtype), tiling.threads, (dtype, tiling), inputs=2)


def grid_tiling(v: View) -> Tiling:
    """Four vectors of each input in registers, beside two of a batch; elements one by one, with an address each,
    half as many bytes."""
    tiles = 4 if v.whole else max(1, (16 if v.vec > 1 else 8) // v.vec // (2 if v.itemsize == 8 else 1))
    return Tiling(THREADS, 1, tiles, v.vec, v.edges, flexible=True)


def grid_shape(v: View, tiling: Tiling, processors: int) -> tuple[int, int]:
    """``(chunks, share)``: all SMs on the rows there are; of more rows, some in turn on as many SMs as hold one."""
    vectors = max(1, v.n // v.vec)
    chunks = processors // v.total if v.total <= processors else cdiv(vectors, THREADS * tiling.tiles)
    chunks = max(1, min(chunks, processors, vectors // THREADS))
    share = cdiv(cdiv(vectors, chunks), LINE) * LINE
    return cdiv(vectors, share), share * v.vec


@register("numba", "softmax_backward", "split_grid")
@planned()
def split_grid(v: View, device: Device, _: None) -> BindView:
    """All blocks of the device on the rows in hand, which they hold on chip while they wait for each other."""
    if v.across:
        raise UnsupportedProblemError("numba/softmax_backward/split_grid", "these rows lie across memory")
    tiling = grid_tiling(v)
    chunks, share = grid_shape(v, tiling, device.multiprocessors)
    groups = min(v.total, device.multiprocessors // chunks)
    return prepare(grid_kernel(v.dtype, tiling), device).call_with_workspace(
        *(v.total * chunks, v.total, groups * chunks, *v.offsets, chunks, share),
        threads=tiling.lanes_for(min(v.n, share)),
        cooperative=True,
    )
