"""A row of both inputs in the registers of a block, or of a warp or a part of one: read once, written once."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax_backward.tiling import fused_tiling
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

STACKED_BLOCKS = 4
"""On an SM: a thread takes several rows only where there are as many blocks all the same."""


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced."""
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, ZERO, kept=True)
    _, _, reduce_sum = reductions(tiling, ZERO)
    products, finish = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, STACK, SCRATCH = tiling.rows, tiling.stack, tiling.scratch
    HELD = WORDS * STACK

    def fused(
        grad, y, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner,
    ):  # fmt: skip
        grads = cuda.local.array(HELD, WORD)
        weights = cuda.local.array(HELD, WORD)
        grad_edges = cuda.local.array(STACK, kind)
        weight_edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)  # threads without a row go along: reductions need whole warps
            outer, place = seat_of(r, inner)
            source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
            head, end = bounds(phase + source, length)
            read(grad, source, x_step, lane, lanes, head, end, grads, level * WORDS)
            read(y, other, y_step, lane, lanes, head, end, weights, level * WORDS)
            grad_edges[level] = read_edge(grad, source, lane, head, end, length)
            weight_edges[level] = read_edge(y, other, lane, head, end, length)

        for level in range(STACK):
            edge, weight = grad_edges[level], weight_edges[level]
            total = reduce_sum(products(grads, weights, level * WORDS) + edge * weight, scratch)
            finish(grads, weights, level * WORDS, total)

            if STACK > 1:  # where the only row is, is known still
                r = first + level * ROWS
                length = n if r < rows else types.int64(0)
                outer, place = seat_of(r, inner)
                source = outer * x_outer + place * x_inner
                head, end = bounds(phase + source, length)
            target = outer * out_outer + place * out_inner
            write(out, target, out_step, lane, lanes, head, end, grads, level * WORDS)
            write_edge(out, target, lane, head, end, length, weight * (edge - total))

    return Source(fused, (dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "softmax_backward", "fused")
@planned()
def fused(v: View, device: Device, _: None) -> BindView:
    """One block per row, or of short rows a warp or a part of one, several rows a thread."""
    id, tiling = "numba/softmax_backward/fused", fused_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"two rows of {v.n} elements are more than a block's registers hold")
    tiling = tiling.spread_over(v.total, STACKED_BLOCKS * device.multiprocessors)
    return over_rows(id, fused_kernel(v.dtype, tiling), tiling, v, device)
