"""Pairs merged: a warp to a row, whose lanes take its parts in turn."""

from functools import cache
from typing import Any

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, lowest
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, elements, reductions, seat_of, seating
from kernelzoo.kernels.numba.softmax.arithmetic import finite_of
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import WARP, exponential, maximum
from kernelzoo.registry import register

TILING = Tiling(lanes=WARP, rows=4, tiles=1, vec=1)


@cache
def merge_kernel(dtype: str) -> Source:
    """The largest maximum first, then the sum of terms, with what it rounds off."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO: Any = type(LOWEST)(0)
    HALF: Any = type(LOWEST)(0.5)
    load, store = elements(dtype)
    reduce_max, _, reduce_sum = reductions(TILING, LOWEST)
    finite, seat, ROWS = finite_of(dtype), seating(TILING), TILING.rows

    def merge(
        x, totals, largest, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        t_outer, t_step, t_inner, l_outer, l_step, l_inner,
    ):  # fmt: skip
        scratch = cuda.shared.array(1, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        outer, place = seat_of(r, inner)
        source, other = outer * x_outer + place * x_inner, outer * t_outer + place * t_inner
        m = LOWEST
        i = lane
        while i < n:
            m = maximum(m, load(x, source + i * x_step))
            i += lanes
        highest = reduce_max(m, scratch)
        shift = finite(highest)
        s, lost = ZERO, ZERO
        i = lane
        while i < n:
            # By the exponential of half the distance, twice: of the whole it may be no normal number where the term is.
            half = exponential((load(x, source + i * x_step) - shift) * HALF)
            term = load(totals, other + i * t_step) * half * half
            added = s + term
            back = added - s
            lost += (s - (added - back)) + (term - back)
            s = added
            i += lanes
        if lost == lost:
            s += lost
        s = reduce_sum(s, scratch)
        if lane == 0 and r < rows:
            store(largest, outer * l_outer + place * l_inner, highest if s == s else s)
            store(out, outer * out_outer + place * out_inner, s)

    return Source(merge, (dtype, dtype, dtype, dtype), TILING.threads, (dtype,), inputs=3)


@register("numba", "softmax_merge", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """A warp to a row, whose lanes take its parts in turn: the largest maximum, then the sum."""
    return over_rows("numba/softmax_merge/rows", merge_kernel(v.dtype), TILING, v, device)
