"""One block per row, the row in registers: read once, written once."""

from functools import cache

import numpy as np
from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.min_backward.arithmetic import arithmetic, nan, shares
from kernelzoo.kernels.numba.min_backward.tiling import whole_row
from kernelzoo.kernels.numba.row import Tiling, access, elements, reductions, seat_of, seating, word_type
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """One group of threads per row, which it reads once, keeps in registers, and writes once."""
    NAN = nan(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, NAN, kept=True)
    load, _ = elements(dtype)
    _, _, reduce_sum = reductions(tiling, np.int64(0))
    matches, finish = arithmetic(dtype, tiling.vec, WORDS)
    shares_of, seat = shares(dtype), seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def fused(
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
            n = types.int64(0)  # threads without a row go along, for the reductions need whole warps
        source, target = outer * x_outer + place * x_inner, outer * out_outer + place * out_inner
        head, end = bounds(phase + source, n)
        read(x, source, x_step, lane, lanes, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, n)

        count = reduce_sum(matches(row, 0, least) + types.int64(edge == least), counts)
        share, rest = shares_of(slope, count)
        finish(row, 0, least, share, rest)

        write(out, target, out_step, lane, lanes, head, end, row, 0)
        write_edge(out, target, lane, head, end, n, share if edge == least else rest)

    return Source(fused, (dtype, dtype, dtype, dtype), tiling.threads, (dtype, tiling), inputs=3)


@register("numba", "min_backward", "fused")
@planned()
def fused(v: View, device: Device, _: None) -> BindView:
    """One block per row, the row in registers: read once, written once."""
    id, tiling = "numba/min_backward/fused", whole_row(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"a row of {v.n} elements is more than a block's registers hold")
    return over_rows(id, fused_kernel(v.dtype, tiling), tiling, v, device)
