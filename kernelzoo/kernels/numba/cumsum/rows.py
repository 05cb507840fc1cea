"""Lanes take neighbouring elements of a row, and add them up in a tree."""

from functools import cache, partial

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import machine
from kernelzoo.kernels.numba.dtypes import WIDE, number
from kernelzoo.kernels.numba.lanes import lanes_tiling
from kernelzoo.kernels.numba.launch import BindView, over_rows, planned
from kernelzoo.kernels.numba.row import row_offsets, thread_mapping
from kernelzoo.kernels.numba.source import Source
from kernelzoo.kernels.numba.tiling import Tiling, View
from kernelzoo.registry import register


@cache
def cumsum_kernel(dtype: str, tiling: Tiling, out_dtype: str) -> Source:
    kind, ZERO, mapping = WIDE[out_dtype], number(out_dtype, 0), thread_mapping(tiling)
    load, _ = machine.element_functions(dtype)
    _, store = machine.element_functions(out_dtype)
    ROWS, THREADS, LEVELS = tiling.rows, tiling.threads, tiling.lanes.bit_length() - 1
    APART = tiling.rows if tiling.across else 1

    def cumsum(x, out, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase):
        sums = cuda.shared.array(THREADS, kind)
        lane, lanes, group = mapping()
        t = types.int64(cuda.threadIdx.x)
        r = types.int64(cuda.blockIdx.x) * ROWS + group
        length = n if r < rows else types.int64(0)
        source, target = row_offsets(r, inner, x_outer, x_inner, out_outer, out_inner)
        before = ZERO
        for start in range(0, n, lanes):  # as often in all threads, which meet
            i, own = start + lane, ZERO
            if i < length:
                own = kind(load(x, source + i * x_step))
            for level in range(LEVELS):  # after Hillis and Steele, 1986
                cuda.syncthreads()
                sums[t] = own
                cuda.syncthreads()
                reach = 1 << level
                if lane >= reach:
                    own += sums[t - reach * APART]
            cuda.syncthreads()
            sums[t] = own
            cuda.syncthreads()
            if i < length:
                store(out, target + i * out_step, before + own)
            before += sums[t + (lanes - 1 - lane) * APART]

    return Source(cumsum, (dtype, out_dtype), tiling.threads, (dtype, tiling, out_dtype))


@register("numba", "cumsum", "rows")
@planned()
def rows(v: View, device: Device, _: None) -> BindView:
    """Blocks of a row one after the other: a tree within each, and the sums of those before it in order."""
    return over_rows("numba/cumsum/rows", partial(cumsum_kernel, out_dtype=v.out_dtype), lanes_tiling(v), v, device)
