"""A minimum's gradient by counts of minima that are known: a block to a row of any length, one read, one write."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan
from kernelzoo.kernels.numba.min_backward.tiling import streaming
from kernelzoo.kernels.numba.row import Tiling, access, elements, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import machine
from kernelzoo.registry import register


@cache
def finish_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread reads its share of a row, and writes it."""
    NAN, SIZE, kind = nan(dtype), tiling.size, WIDE[dtype]
    ZERO: Any = type(one(dtype))(0)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, NAN)
    load, _ = elements(dtype)
    _, finish = arithmetic(dtype, tiling.vec, WORDS)
    seat, ROWS, keep = seating(tiling), tiling.rows, machine.keep

    def finish_rows(
        x, y, grad, counts, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, grad_outer, grad_step, grad_inner, c_outer, c_step, c_inner,
    ):  # fmt: skip
        row = cuda.local.array(WORDS, WORD)
        lane, lanes, group = seat()
        # Backwards: what min_backward_counts read last is likeliest to be in L2 still.
        r = rows - 1 - types.int64(cuda.blockIdx.x) * ROWS - group
        if r < 0:
            return
        outer, place = seat_of(r, inner)
        source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
        least = load(y, outer * y_outer + place * y_inner)
        slope = load(grad, outer * grad_outer + place * grad_inner)
        count = counts[outer * c_outer + place * c_inner]
        share, rest = keep(slope / count), keep(slope * ZERO / count)
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            finish(row, 0, least, share, rest)
            write(out, target, out_step, lane, lanes, first, end, row, 0)
            first += lanes * SIZE
        write_edge(out, target, lane, head, end, n, share if edge == least else rest)

    return Source(finish_rows, (dtype, dtype, dtype, kind, dtype), tiling.threads, (dtype, tiling), inputs=4)


@register("numba", "min_backward_finish", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: one read, one write."""
    tiling = streaming(v)
    return over_rows("numba/min_backward_finish/rows", finish_kernel(v.dtype, tiling), tiling, v, device)
