"""As many blocks as the device holds at once: each strides over rows, the next one on its way."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.errors import UnsupportedProblemError
from kernelzoo.kernels.numba.device_functions import exponential, maximum
from kernelzoo.kernels.numba.dtypes import WIDE, lowest, one
from kernelzoo.kernels.numba.launch import BindView, View, planned, prepare
from kernelzoo.kernels.numba.row import Tiling, access, begin, reductions, seating, word_type
from kernelzoo.kernels.numba.softmax.arithmetic import arithmetic
from kernelzoo.kernels.numba.softmax.tiling import Numbers, column_tiling, tiles_of
from kernelzoo.kernels.numba.source import Source
from kernelzoo.layout import cdiv
from kernelzoo.registry import register


@cache
def persistent_kernel(dtype: str, tiling: Tiling) -> Source:
    """Program p takes rows p, p + programs, p + 2 programs, ..., and reads the next row before it reduces this one:
    a software pipeline of two stages, both in registers."""
    kind, ONE, LOWEST = WIDE[dtype], one(dtype), lowest(dtype)
    WORD, WORDS = word_type(dtype, tiling.vec), tiling.words(dtype)
    bounds, read, write, read_edge, write_edge = access(dtype, tiling, LOWEST, kept=True)
    reduce_max, _, reduce_sum = reductions(tiling, LOWEST)
    finite, top, total, finish, _ = arithmetic(dtype, tiling.vec, WORDS)
    seat = seating(tiling)
    ROWS, SCRATCH = tiling.rows, tiling.scratch

    def persistent(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        row = cuda.local.array(WORDS, WORD)
        following = cuda.local.array(WORDS, WORD)
        maxima = cuda.shared.array(SCRATCH, kind)
        sums = cuda.shared.array(SCRATCH, kind)
        lane, lanes, group = seat()
        stride = types.int64(cuda.gridDim.x) * ROWS
        r0 = types.int64(cuda.blockIdx.x) * ROWS
        length = n if r0 + group < rows else types.int64(0)
        source, target = begin(r0 + group, inner, x_outer, x_inner, out_outer, out_inner)
        head, end = bounds(phase + source, length)
        read(x, source, x_step, lane, lanes, head, end, row, 0)
        edge = read_edge(x, source, lane, head, end, length)
        while r0 < rows:
            next_length = n if r0 + stride + group < rows else types.int64(0)
            next_source, next_target = begin(r0 + stride + group, inner, x_outer, x_inner, out_outer, out_inner)
            next_head, next_end = bounds(phase + next_source, next_length)
            read(x, next_source, x_step, lane, lanes, next_head, next_end, following, 0)
            next_edge = read_edge(x, next_source, lane, next_head, next_end, next_length)

            # Either barrier parts the other's scratch memory from the next row's.
            m = finite(reduce_max(maximum(top(row, 0), edge), maxima))
            edge = exponential(edge - m)
            scale = ONE / reduce_sum(edge + total(row, 0, m), sums)
            finish(row, 0, m, scale)
            write(out, target, out_step, lane, lanes, head, end, row, 0)
            write_edge(out, target, lane, head, end, length, edge * scale)

            for k in range(WORDS):
                row[k] = following[k]
            edge, target, head, end, length = next_edge, next_target, next_head, next_end, next_length
            r0 += stride

    return Source(persistent, (dtype, dtype), tiling.threads, (dtype, tiling))


def persistent_tiling(v: View, numbers: Numbers) -> Tiling | None:
    """As for fused, but two rows share the registers, so that a block has 512 threads with up to 128 registers each."""
    if v.across:
        return column_tiling(v, 4 * 4 // max(v.itemsize, 4))  # and each load of either row an address
    tiles = tiles_of(v, 512, numbers)
    return None if tiles is None else Tiling(512, 1, tiles, v.vec, v.edges, flexible=True)


@register("numba", "softmax", "persistent")
@planned(Numbers)
def persistent(v: View, device: Device, numbers: Numbers) -> BindView:
    """A grid of SMs times the compiled kernel's occupancy; each block strides over rows, the next one on its way."""
    tiling = persistent_tiling(v, numbers)
    if tiling is None:
        raise UnsupportedProblemError(
            "numba/softmax/persistent", f"two rows of {v.n} elements are more than a block's registers hold"
        )
    kernel = prepare(persistent_kernel(v.dtype, tiling), device)
    threads = tiling.lanes_for(v.n) * tiling.rows
    return kernel.call(min(kernel.resident(threads), cdiv(v.total, tiling.rows)), *v.offsets, threads=threads)
