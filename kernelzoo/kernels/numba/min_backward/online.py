"""One block per row of any length, which is read twice: a running count of its minima, then the results."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan, shares
from kernelzoo.kernels.numba.min_backward.tiling import streaming
from kernelzoo.kernels.numba.row import Tiling, access, elements, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the running count of its share, met once at the end; a second pass reads again and writes."""
    NAN, SIZE = nan(dtype), tiling.size
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, NAN)
    load, _ = elements(dtype)
    _, _, reduce_sum = reductions(tiling, np.int64(0))
    matches, finish = arithmetic(dtype, tiling.vec, WORDS)
    shares_of, seat = shares(dtype), seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def online(
        x, y, grad, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner, grad_outer, grad_step, grad_inner,
    ):  # fmt: skip
        row = cuda.local.array(WORDS, WORD)
        counts = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        least, slope = NAN, NAN
        outer, place = seat_of(r, inner)
        if r < rows:
            least = load(y, outer * y_outer + place * y_inner)
            slope = load(grad, outer * grad_outer + place * grad_inner)
        else:
            n = types.int64(0)
        source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        count = types.int64(edge == least)
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            count += matches(row, 0, least)
            first += lanes * SIZE

        share, rest = shares_of(slope, reduce_sum(count, counts))

        # Backwards: what was read last is the likeliest to be in a cache still.
        while first > head:
            first -= lanes * SIZE
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            finish(row, 0, least, share, rest)
            write(out, target, out_step, lane, lanes, first, end, row, 0)
        write_edge(out, target, lane, head, end, n, share if edge == least else rest)

    return Source(online, (dtype, dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "min_backward", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: a running count of its minima in one pass, a second pass that writes."""
    tiling = streaming(v)
    return over_rows("numba/min_backward/online", online_kernel(v.dtype, tiling), tiling, v, device)
