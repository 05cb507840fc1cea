"""One block per row of any length, which is read twice: a running (max, sum), then the results."""

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
from kernelzoo.kernels.numba.softmax.tiling import streaming_tiling
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

ONLINE_COLUMNS = 2**22
"""Columns at most, but in float64: a lane adds up its part of a row in order, in float32, and of longer rows the sum is
further off than the contract allows."""


@cache
def online_kernel(dtype: str, tiling: Tiling) -> Source:
    """Each thread keeps a running (max, sum) of its share, met once at the end; a second pass reads and writes."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS, SIZE = word_type(dtype, tiling.vec), tiling.words(dtype), tiling.size
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def online(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        if r >= rows:
            n = types.int64(0)
        source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, n)
        edge = read_edge(x, source, lane, head, end, n)
        m = maximum(edge, LOWEST)
        s = exponential(edge - finite(m))
        first = head
        while first < end:
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            grown = maximum(m, top(row, 0))
            s = s * exponential(m - finite(grown)) + total(row, 0, finite(grown))
            m = grown
            first += lanes * SIZE

        highest = finite(reduce_max(m, maxima))
        scale = ONE / reduce_sum(s * exponential(m - highest), sums)

        # Backwards: what was read last is the likeliest to be in a cache still.
        while first > head:
            first -= lanes * SIZE
            read(x, source, x_step, lane, lanes, first, end, row, 0)
            total(row, 0, highest)
            finish(row, 0, highest, scale)
            write(out, target, out_step, lane, lanes, first, end, row, 0)
        write_edge(out, target, lane, head, end, n, exponential(edge - highest) * scale)

    return Source(online, (dtype, dtype), tiling.threads, (dtype, tiling))


def is_inaccurate(v: View) -> bool:
    """Whether rows are too long for a running sum in float32."""
    return v.n > ONLINE_COLUMNS and v.dtype != "float64"


@register("numba", "softmax", "online")
@planned()
def online(v: View, device: Device, _: None) -> BindView:
    """One block per row of any length: a running (max, sum) in one pass, a second pass that writes."""
    id, tiling = "numba/softmax/online", streaming_tiling(v)
    if is_inaccurate(v):
        raise UnsupportedProblemError(
            id, f"a running sum in float32 is accurate up to {ONLINE_COLUMNS} columns; got {v.n}"
        )
    return over_rows(id, online_kernel(v.dtype, tiling), tiling, v, device)
