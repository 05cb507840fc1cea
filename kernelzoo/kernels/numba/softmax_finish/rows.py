"""A softmax's rows by pairs that are known: a block to a row of any length, one read, one write."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, lowest
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax.tiling import streaming_tiling
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import exponential, machine
from kernelzoo.registry import register


@cache
def finishing(dtype: str, vec: int, words: int) -> tuple[Any, Any]:
    """``result(element, top, total)``, which is exp(min(element - top, 0)) / total, a NaN kept; and ``finish(row, top,
    total)``, which makes results of ``words`` registers."""
    ZERO = type(lowest(dtype))(0)

    @cuda.jit(device=True, inline="always")
    def result(element, top, total):
        depth = element - top
        return exponential(ZERO if depth > ZERO else depth) / total

    if machine.is_packed(dtype, vec):
        low, high, pair, _, _ = machine.word_functions(dtype)
        keep = machine.keep

        @cuda.jit(device=True, inline="always")
        def finish(row, top, total):
            for j in range(words):
                word = keep(row[j])
                row[j] = pair(result(low(word), top, total), result(high(word), top, total))

        return result, finish

    @cuda.jit(device=True, inline="always")
    def wide_finish(row, top, total):
        for j in range(words):
            row[j] = result(row[j], top, total)

    return result, wide_finish


@cache
def finish_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread reads its share of a row, and writes it."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    result, finish = finishing(dtype, tiling.vec, WORDS)
    seat, ROWS = seating(tiling), tiling.rows

    def finish_rows(
        x, largest, totals, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        m_outer, m_step, m_inner, t_outer, t_step, t_inner,
    ):  # fmt: skip
        row = cuda.local.array(WORDS, WORD)
        lane, lanes, group = seat()
        # Backwards: what softmax_pairs read last is likeliest to be in L2 still.
        r = rows - 1 - types.int64(cuda.blockIdx.x) * ROWS - group
        if r < 0:
            return
        outer, place = seat_of(r, inner)
        source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
        top = largest[outer * m_outer + place * m_inner]
        total = totals[outer * t_outer + place * t_inner]
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            finish(row, top, total)
            write(out, target, out_step, lane, lanes, first, end, row, 0)
            first += lanes * SIZE
        write_edge(out, target, lane, head, end, n, result(edge, top, total))

    return Source(finish_rows, (dtype, kind, kind, dtype), tiling.threads, (dtype, tiling), 2, inputs=3)


@register("numba", "softmax_finish", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: one read, one write."""
    tiling = streaming_tiling(v)
    return over_rows("numba/softmax_finish/rows", finish_kernel(v.dtype, tiling), tiling, v, device)
