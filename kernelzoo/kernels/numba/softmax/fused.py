"""One block per row, the row in registers: read once, written once."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.device_functions import exponential, maximum
from kernelzoo.kernels.numba.dtypes import WIDE, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, begin, reductions, seating, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax.tiling import Numbers, column_tiling, tiles_of
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

BLOCK_LIMIT = 1024
"""Threads in a block."""


@cache
def fused_kernel(dtype: str, tiling: Tiling) -> Source:
    """One group of threads per row, which it reads once, keeps in registers, and writes once."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def fused(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)  # threads without a row go along, for the reductions need whole warps
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        read(x, source, x_step, lane, lanes, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, n)

        m = finite(reduce_max(maximum(top(row, 0), edge), maxima))
        edge = exponential(edge - m)
        s = edge + total(row, 0, m)
        scale = ONE / reduce_sum(s, sums)
        finish(row, 0, m, scale)

        write(out, target, out_step, lane, lanes, head, end, row, 0)
        write_edge(out, target, lane, head, end, n, edge * scale)

    return Source(fused, (dtype, dtype), tiling.threads, (dtype, tiling))


def fused_tiling(v: View, numbers: Numbers) -> Tiling | None:
    """Four vectors of 16 bytes a thread, so that 2048 threads keep 128 kB of an SM's loads in flight; fewer for short
    rows, eight where the row needs them. Of up to 512 threads an SM runs two blocks then."""
    if v.across:
        return column_tiling(v, 16 * 4 // max(v.itemsize, 4))
    tiles = tiles_of(v, BLOCK_LIMIT, numbers)
    return None if tiles is None else Tiling(BLOCK_LIMIT, 1, tiles, v.vec, v.edges, flexible=True)


@register("numba", "softmax", "fused")
@planned(Numbers)
def fused(v: View, device: Device, numbers: Numbers) -> BindView:
    """One block per row, the row in registers: read once, written once."""
    id, tiling = "numba/softmax/fused", fused_tiling(v, numbers)
    if tiling is None:
        raise UnsupportedProblemError(id, f"a row of {v.n} elements is more than a block's registers hold")
    return over_rows(id, fused_kernel(v.dtype, tiling), tiling, v, device)
