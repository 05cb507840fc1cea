"""A row in the registers of a block, or of a warp or a part of one: read once, written once."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan, shares
from kernelzoo.kernels.numba.min_backward.tiling import fused_tiling
from kernelzoo.kernels.numba.row import Tiling, access, elements, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

STACKED_BLOCKS = 4
"""On an SM: a thread takes several rows only where there are as many blocks all the same."""


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced."""
    kind, NAN = WIDE[dtype], nan(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, NAN, kept=True)
    load, _ = elements(dtype)
    _, _, reduce_sum = reductions(tiling, np.int64(0))
    matches, finish = arithmetic(dtype, tiling.vec, WORDS)
    shares_of, seat = shares(dtype), seating(tiling)
    ROWS, STACK, SCRATCH = tiling.rows, tiling.stack, tiling.scratch
    HELD = WORDS * STACK

    def fused(
        x, y, grad, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, grad_outer, grad_step, grad_inner,
    ):  # fmt: skip
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        minima = cuda.local.array(STACK, kind)
        slopes = cuda.local.array(STACK, kind)
        counts = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, group = seat()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)  # threads without a row go along: reductions need whole warps
            outer, place = seat_of(r, inner)
            minima[level], slopes[level] = NAN, NAN
            if r < rows:
                minima[level] = load(y, outer * y_outer + place * y_inner)
                slopes[level] = load(grad, outer * grad_outer + place * grad_inner)
            source = outer * x_outer + place * x_inner
            head, end = bounds(phase + source, length)
            read(x, source, x_step, lane, lanes, head, end, held, level * WORDS)
            edges[level] = read_edge(x, source, lane, head, end, length)

        for level in range(STACK):
            least, edge = minima[level], edges[level]
            count = reduce_sum(matches(held, level * WORDS, least) + types.int64(edge == least), counts)
            share, rest = shares_of(slopes[level], count)
            finish(held, level * WORDS, least, share, rest)

            if STACK > 1:  # where the only row is, is known still
                r = first + level * ROWS
                length = n if r < rows else types.int64(0)
                outer, place = seat_of(r, inner)
                source = outer * x_outer + place * x_inner
                head, end = bounds(phase + source, length)
            target = outer * out_outer + place * out_inner
            write(out, target, out_step, lane, lanes, head, end, held, level * WORDS)
            write_edge(out, target, lane, head, end, length, share if edge == least else rest)

    return Source(fused, (dtype, dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "min_backward", "fused")
@planned()
def fused(v: View, device: Device, _: None) -> BindView:
    """One block per row, or of short rows a warp or a part of one, several rows a thread."""
    id, tiling = "numba/min_backward/fused", fused_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"a row of {v.n} elements is more than a block's registers hold")
    tiling = tiling.spread_over(v.total, STACKED_BLOCKS * device.multiprocessors)
    return over_rows(id, fused_kernel(v.dtype, tiling), tiling, v, device)
