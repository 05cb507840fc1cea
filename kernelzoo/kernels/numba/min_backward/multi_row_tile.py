"""A warp, or the part of one that the row fills, per row; several rows a thread, in registers."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan, shares
from kernelzoo.kernels.numba.min_backward.tiling import short_rows
from kernelzoo.kernels.numba.row import Tiling, access, elements, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

STACKED_BLOCKS = 4
"""On an SM: a thread takes several rows only where there are as many blocks all the same."""


@cache
def multi_row_tile_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced. No shared memory."""
    kind, NAN = WIDE[dtype], nan(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, NAN, kept=True)
    load, _ = elements(dtype)
    _, _, reduce_sum = reductions(tiling, np.int64(0))
    matches, finish = arithmetic(dtype, tiling.vec, WORDS)
    shares_of, seat = shares(dtype), seating(tiling)
    ROWS, STACK = tiling.rows, tiling.stack
    HELD = WORDS * STACK

    def multi_row_tile(
        x, y, grad, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, grad_outer, grad_step, grad_inner,
    ):  # fmt: skip
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        minima = cuda.local.array(STACK, kind)
        slopes = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(1, types.int64)
        lane, lanes, group = seat()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
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
            count = reduce_sum(matches(held, level * WORDS, least) + types.int64(edge == least), scratch)
            share, rest = shares_of(slopes[level], count)
            finish(held, level * WORDS, least, share, rest)

            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            outer, place = seat_of(r, inner)
            source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
            head, end = bounds(phase + source, length)
            write(out, target, out_step, lane, lanes, head, end, held, level * WORDS)
            write_edge(out, target, lane, head, end, length, share if edge == least else rest)

    return Source(multi_row_tile, (dtype, dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "min_backward", "multi_row_tile")
@planned()
def multi_row_tile(v: View, device: Device, _: None) -> BindView:
    """A warp, or the part of one that the row fills, per row, several rows a thread; for short rows."""
    id, tiling = "numba/min_backward/multi_row_tile", short_rows(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"a row of {v.n} elements is more than a warp's registers hold")
    tiling = tiling.spread_over(v.total, STACKED_BLOCKS * device.multiprocessors)
    return over_rows(id, multi_row_tile_kernel(v.dtype, tiling), tiling, v, device)
