"""A warp, or the part of one that the row fills, per row; several rows a thread, in registers."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.device_functions import WARP, exponential, maximum
from kernelzoo.kernels.numba.dtypes import WIDE, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, over_rows, planned
from kernelzoo.kernels.numba.row import Tiling, access, begin, reductions, seating, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.source import Source
from kernelzoo.layout import VECTOR_BYTES, power_of_two
from kernelzoo.registry import register

STACKED_BLOCKS = 4
"""On an SM: a thread takes several rows only where there are as many blocks all the same."""


@cache
def multi_row_tile_kernel(dtype: str, tiling: Tiling) -> Source:
    """A block takes ``rows * stack`` consecutive rows: side by side one per group of lanes, and ``stack`` of those one
    above the other in each thread's registers, all of them read before the first is reduced. No shared memory."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, STACK = tiling.rows, tiling.stack
    HELD = WORDS * STACK

    def multi_row_tile(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        held = cuda.local.array(HELD, WORD)
        edges = cuda.local.array(STACK, kind)
        scratch = cuda.shared.array(1, kind)
        lane, lanes, group = seat()
        first = types.int64(cuda.blockIdx.x) * (ROWS * STACK) + group
        for level in range(STACK):
            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            read(x, source, x_step, lane, lanes, head, end, held, level * WORDS)
            edges[level] = read_edge(x, source, lane, head, end, length)

        for level in range(STACK):
            m = finite(reduce_max(maximum(top(held, level * WORDS), edges[level]), scratch))
            edges[level] = exponential(edges[level] - m)
            scale = ONE / reduce_sum(edges[level] + total(held, level * WORDS, m), scratch)
            edges[level] *= scale
            finish(held, level * WORDS, m, scale)

            r = first + level * ROWS
            length = n if r < rows else types.int64(0)
            source, target = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            head, end = bounds(phase + source, length)
            write(out, target, out_step, lane, lanes, head, end, held, level * WORDS)
            write_edge(out, target, lane, head, end, length, edges[level])

    return Source(multi_row_tile, (dtype, dtype), tiling.threads, (dtype, tiling))


def multi_row_tiling(v: View) -> Tiling | None:
    """Blocks of 128 threads; a warp to a row of over 64 vectors, half a warp to a shorter one: fewer lanes with more
    vectors each shuffle less. About four vectors a thread in flight, over its rows together, up to eight where a warp's
    row needs them; of float64, for whose exponentials fewer lanes do better, four to a lane at least."""
    size = 16 * 4 // max(v.itemsize, 4)
    if v.across:
        if v.n > 2 * size:
            return None
        # One thread to a row: neighbours in a warp are neighbours in memory already.
        return Tiling(1, 256, v.n, 1, across=True, stack=max(1, size // power_of_two(v.n)))
    vec = v.vec
    if v.edges and v.n < 4 * vec:  # too short for aligned vectors: lane by lane
        vec = 1
    vectors = max(1, v.n // vec)
    lanes = min(power_of_two(vectors), 16 if vectors <= 64 and vec > 1 else WARP)
    double = v.dtype == "float64" and vec > 1
    if double:
        lanes = min(power_of_two(-(-vectors // 4)), WARP)
    if v.edges and vec > 1:
        lanes = max(lanes, min(2 * vec, WARP))  # an edge element each
    tiles = power_of_two(-(-vectors // lanes))
    deep = 8 if double else 4 if vec * v.itemsize == VECTOR_BYTES else max(1, size // vec)
    if tiles > (8 if double else 2 * deep):
        return None
    return Tiling(lanes, 128 // lanes, tiles, vec, v.edges and vec > 1, stack=max(1, deep // tiles))


@register("numba", "softmax", "multi_row_tile")
@planned()
def multi_row_tile(v: View, device: Device, _: None) -> BindView:
    """A warp, or the part of one that the row fills, per row, several rows a thread; for short rows.

    As many blocks as it takes to cover the rows, fewer rows to a thread where those would leave SMs idle.
    """
    id, tiling = "numba/softmax/multi_row_tile", multi_row_tiling(v)
    if tiling is None:
        raise UnsupportedProblemError(id, f"a row of {v.n} elements is more than a warp's registers hold")
    tiling = tiling.spread_over(v.total, STACKED_BLOCKS * device.multiprocessors)
    return over_rows(id, multi_row_tile_kernel(v.dtype, tiling), tiling, v, device)
