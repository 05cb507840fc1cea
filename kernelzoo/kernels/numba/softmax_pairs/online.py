"""One block per row of any length, which is read once: a running (max, sum), which the block leaves."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE, lowest
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax.tiling import streaming_tiling
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.words import exponential, maximum
from kernelzoo.registry import register


@cache
def pairs_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps a running (max, sum) of its share, met once at the end; sums with what they round off."""
    kind, LOWEST = WIDE[dtype], lowest(dtype)
    ZERO = type(LOWEST)(0)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, _, read_edge, _ = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, _, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def pairs(
        x, largest, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        m_outer, m_step, m_inner,
    ):  # fmt: skip
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        outer, place = seat_of(r, inner)
        source = outer * x_outer + place * x_inner
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        lost = ZERO
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            grown = maximum(m, top(row, 0))
            scale = exponential(m - finite(grown))
            s, lost = s * scale, lost * scale
            term = total(row, 0, finite(grown))
            added = s + term  # and what that rounds off (D. E. Knuth's two-sum)
            back = added - s
            lost += (s - (added - back)) + (term - back)
            s, m = added, grown
            first += lanes * SIZE
        if lost == lost:
            s += lost
        highest = reduce_max(m, maxima)
        s = reduce_sum(s * exponential(m - finite(highest)), sums)
        if lane == 0 and r < rows:
            # A NaN that the maximum dropped is in the sum.
            largest[outer * m_outer + place * m_inner] = highest if s == s else s
            out[outer * out_outer + place * out_inner] = s

    return Source(pairs, (dtype, kind, kind), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "softmax_pairs", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: a running (max, sum) in one pass."""
    tiling = streaming_tiling(v)
    return over_rows("numba/softmax_pairs/online", pairs_kernel(v.dtype, tiling), tiling, v, device)
