"""A row in chunks, where it can't stay on chip: a launch for their (max, sum) pairs, and one that writes."""

from collections.abc import Callable
from functools import cache

import torch
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, computed_in, lowest, one
from kernelzoo.kernels.numba.launch import GRID_LIMIT, BindView, View, planned, prepare
from kernelzoo.kernels.numba.row import Tiling, access, begin, reductions, seating, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax.tiling import streaming_tiling
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import exponential, maximum
from kernelzoo.kernels.shared.split import split
from kernelzoo.launch import Launch, Movable, WithWorkspace, in_turn, sequence
from kernelzoo.layout import cdiv
from kernelzoo.registry import register
from kernelzoo.tables import knob, numbers

MOST_CHUNKS = 1024
"""Of a row, whose pairs every block of the second launch reads."""


@numbers
class Numbers:
    """Shipped values are an H200's."""

    l2_percent: int = knob(
        50, among=(25, 50, 75), unit="% of the L2", why="that the rows under way fill, where a row is read twice"
    )


@cache
def partial_kernel(dtype: str, tiling: Tiling) -> Source:
    """First of two launches, where a row can't stay on chip: the (max, sum) of each chunk of each row."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, _, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def partial(
        x, pairs, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + group, block % chunks
        length = n if r < rows else types.int64(0)
        source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        edge = LOWEST
        if chunk == 0:
            edge = read_edge(x, source, lane, head, end, length)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, lanes, first, last, row, 0)
            grown = maximum(m, top(row, 0))
            s = s * exponential(m - finite(grown)) + total(row, 0, finite(grown))
            m = grown
            first += lanes * SIZE
        highest = reduce_max(m, maxima)
        s = reduce_sum(s * exponential(m - finite(highest)), sums)
        if lane == 0 and r < rows:
            pairs[(r * chunks + chunk) * 2] = highest
            pairs[(r * chunks + chunk) * 2 + 1] = s

    return Source(partial, (dtype, kind), tiling.threads, (dtype, tiling))


@cache
def merge_kernel(dtype: str, tiling: Tiling) -> Source:
    """Second of them: every block merges its row's pairs, the same way as the others, and writes its chunk."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    ZERO = type(ONE)(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, _, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def merge(
        x, pairs, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, r0
    ):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        r, chunk = r0 + block // chunks * ROWS + group, block % chunks
        length = n if r < rows else types.int64(0)
        m, s = LOWEST, ZERO
        pair = lane if r < rows else chunks
        while pair < chunks:
            part_max, part_sum = pairs[(r * chunks + pair) * 2], pairs[(r * chunks + pair) * 2 + 1]
            grown = maximum(m, part_max)
            s = s * exponential(m - finite(grown)) + part_sum * exponential(part_max - finite(grown))
            m = grown
            pair += lanes
        highest = finite(reduce_max(m, maxima))
        scale = ONE / reduce_sum(s * exponential(m - highest), sums)

        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        first = head + chunk * span
        last = min(first + span, end)
        while first < last:
            read(x, source, x_step, lane, lanes, first, last, row, 0)
            total(row, 0, highest)
            finish(row, 0, highest, scale)
            write(out, target, out_step, lane, lanes, first, last, row, 0)
            first += lanes * SIZE
        if chunk == 0:
            edge = read_edge(x, source, lane, head, end, length)
            write_edge(out, target, lane, head, end, length, exponential(edge - highest) * scale)

    return Source(merge, (dtype, kind, dtype), tiling.threads, (dtype, tiling))


@register("numba", "softmax", "split_two_launches")
@planned(Numbers)
def split_two_launches(v: View, device: Device, numbers: Numbers) -> BindView:
    """The (max, sum) of each chunk of a row in one launch; its results in a second one, which merges them.

    Both launches for as many rows at a time as leave room in the L2 cache, where the second finds what the first has
    read; one tile a chunk, which is the finest cut, unless that is too many chunks.
    """
    tiling = streaming_tiling(v)
    threads = tiling.lanes_for(v.n) * tiling.rows
    groups = cdiv(v.total, tiling.rows)
    chunks, span, most = split(groups, v.n, MOST_CHUNKS, tiling.lanes_for(v.n) * tiling.size, GRID_LIMIT)
    abreast = max(1, min(most, device.l2_bytes * numbers.l2_percent // 100 // (v.n * v.itemsize * tiling.rows)))
    partial = prepare(partial_kernel(v.dtype, tiling), device)
    merge = prepare(merge_kernel(v.dtype, tiling), device)
    waves = [
        tuple(kernel.call(blocks, *v.offsets, chunks, span, r0, threads=threads) for kernel in (partial, merge))
        for first in range(0, groups, abreast)
        for blocks, r0 in [(min(abreast, groups - first) * chunks, first * tiling.rows)]
    ]

    def bind(x: torch.Tensor, out: torch.Tensor) -> Launch:
        pairs = torch.empty(v.total * chunks * 2, dtype=computed_in(v.dtype), device=x.device)
        steps = [step for first, second in waves for step in (first(x, pairs), second(x, pairs, out))]
        placed = [step for step in steps if isinstance(step, Movable)]
        if len(placed) < len(steps):  # simulated or recorded
            return sequence(*steps)
        between = pairs.data_ptr()

        def leave(at: Callable[..., None]) -> Callable[..., None]:
            return lambda x, out: at(x, between)

        turns = (step.at if isinstance(step, WithWorkspace) else leave(step.at) for step in placed)
        return WithWorkspace(in_turn(*turns), x, out, workspace=(pairs,))

    return bind
