"""A softmax's gradient by totals of rows that are known: a block to a row of any length, two reads, one write."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax_backward.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax_backward.tiling import streaming
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def finish_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread reads its share of both rows, and writes it."""
    kind, ZERO = WIDE[dtype], type(one(dtype))(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, ZERO)
    _, finish = arithmetic(dtype, tiling.vec, WORDS)
    seat, ROWS = seating(tiling), tiling.rows

    def finish_rows(
        grad, y, totals, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, t_outer, t_step, t_inner,
    ):  # fmt: skip
        grads = cuda.local.array(WORDS, WORD)
        weights = cuda.local.array(WORDS, WORD)
        lane, lanes, group = seat()
        # Backwards: what vecdot read last is likeliest to be in L2 still.
        r = rows - 1 - types.int64(cuda.blockIdx.x) * ROWS - group
        if r < 0:
            return
        outer, place = seat_of(r, inner)
        source, other = outer * x_outer + place * x_inner, outer * y_outer + place * y_inner
        target = outer * out_outer + place * out_inner
        total = totals[outer * t_outer + place * t_inner]
        head, end = bounds(phase + source, n)
        edge = read_edge(grad, source, lane, head, end, n)
        weight = read_edge(y, other, lane, head, end, n)
        first = head
        while first < end:
            read(grad, source, x_step, lane, lanes, first, end, grads, 0)
            read(y, other, y_step, lane, lanes, first, end, weights, 0)
            finish(grads, weights, 0, total)
            write(out, target, out_step, lane, lanes, first, end, grads, 0)
            first += lanes * SIZE
        write_edge(out, target, lane, head, end, n, weight * (edge - total))

    return Source(finish_rows, (dtype, dtype, kind, dtype), tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "softmax_backward_finish", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: one read of both inputs, one write."""
    tiling = streaming(v)
    return over_rows("numba/softmax_backward_finish/rows", finish_kernel(v.dtype, tiling), tiling, v, device)
