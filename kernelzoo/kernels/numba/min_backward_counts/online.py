"""One block per row of any length, which is read once: a running count of its minima, which the block leaves."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan
from kernelzoo.kernels.numba.min_backward.tiling import streaming
from kernelzoo.kernels.numba.row import Tiling, access, elements, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def count_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps the running count of its share, in integers, met once at the end."""
    NAN, SIZE, kind = nan(dtype), tiling.size, WIDE[dtype]
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, _, read_edge, _ = access(dtype, tiling, NAN)
    load, _ = elements(dtype)
    _, _, reduce_sum = reductions(tiling, np.int64(0))
    matches, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def counts(
        x, y, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase,
        y_outer, y_step, y_inner,
    ):  # fmt: skip
        row = cuda.local.array(WORDS, WORD)
        met = cuda.shared.array(SCRATCH, types.int64)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        least = NAN
        outer, place = seat_of(r, inner)
        if r < rows:
            least = load(y, outer * y_outer + place * y_inner)
        else:
            n = types.int64(0)
        source = outer * x_outer + place * x_inner
        head, end = bounds(phase + source, n)
        count = types.int64(read_edge(x, source, lane, head, end, n) == least)
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            count += matches(row, 0, least)
            first += lanes * SIZE
        count = reduce_sum(count, met)
        if lane == 0 and r < rows:
            out[outer * out_outer + place * out_inner] = kind(count)

    return Source(counts, (dtype, dtype, kind), tiling.threads, (dtype, tiling), inputs=2)


@register("numba", "min_backward_counts", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: a running count of its minima in one pass."""
    tiling = streaming(v)
    return over_rows("numba/min_backward_counts/online", count_kernel(v.dtype, tiling), tiling, v, device)
