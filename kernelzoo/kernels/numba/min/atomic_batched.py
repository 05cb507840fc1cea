"""Programs share out the reduced axis; the minima of all their rows go out in one burst of atomics at the end."""

from functools import cache

from numba import cuda
from numba.cuda import types

from kernelzoo.device import Device
from kernelzoo.kernels.numba.device_functions import atomic_min
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, View, planned
from kernelzoo.kernels.numba.min.atomics import Numbers, by_atomics, part_minimum_of
from kernelzoo.kernels.numba.row import Tiling, begin, seating
from kernelzoo.kernels.numba.source import Source
from kernelzoo.registry import register

BATCH = 1024
"""Rows of a slab: their minima take 8 kB of shared memory at most, of which an SM has 100 or more."""


@cache
def atomic_batched_kernel(dtype: str, tiling: Tiling) -> Source:
    """As atomic_eager, but the minima of the whole slab wait in shared memory and go out in one burst at the end."""
    kind = WIDE[dtype]
    part_minimum, seat, ROWS, SCRATCH = part_minimum_of(dtype, tiling), seating(tiling), tiling.rows, tiling.scratch

    def batched(
        x, results, rows, inner, n, x_outer, x_step, x_inner, out_outer, out_step, out_inner, phase, chunks, span, slab
    ):
        scratch = cuda.shared.array(SCRATCH, kind)
        minima = cuda.shared.array(BATCH, kind)
        t = types.int64(cuda.threadIdx.x)
        lane, lanes, group = seat()
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + group
            length = n if r < rows else types.int64(0)
            source, _ = begin(r, inner, x_outer, x_inner, out_outer, out_inner)
            smallest = part_minimum(x, source, x_step, lane, lanes, length, phase, chunk, span, scratch)
            if lane == 0:
                minima[done + group] = smallest
            done += ROWS
        cuda.syncthreads()
        i = types.int64(t)
        while i < slab:
            if r0 + i < rows:
                _, target = begin(r0 + i, inner, x_outer, x_inner, out_outer, out_inner)
                atomic_min(results, target, minima[i])
            i += cuda.blockDim.x

    return Source(batched, (dtype, kind), tiling.threads, (dtype, tiling))


@register("numba", "min", "atomic_batched")
@planned(Numbers)
def atomic_batched(v: View, device: Device, numbers: Numbers) -> BindView:
    """Programs share out the reduced axis; the minima of all their rows go out in one burst of atomics at the end."""
    return by_atomics("numba/min/atomic_batched", atomic_batched_kernel, BATCH, v, device, numbers)
