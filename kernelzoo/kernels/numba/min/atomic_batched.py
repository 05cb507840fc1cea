from numba import cuda
from numba.cuda import types

from kernelzoo.kernels.numba import machine
from kernelzoo.kernels.numba.dtypes import WIDE
from kernelzoo.kernels.numba.launch import BindView, RowView, Source, Tiling, make_once, plan_once
from kernelzoo.kernels.numba.min.atomics import Knobs, bind_atomic_min, chunk_min_function
from kernelzoo.kernels.numba.row import row_offsets
from kernelzoo.registry import register

BATCH = 1024
"""Rows of a slab. Their minima take at most 8 kB of shared memory, of which an SM has 100 kB or more."""


@make_once
def atomic_batched_kernel(dtype: str, tiling: Tiling) -> Source:
    """Do as atomic_eager does, but write the minima of a block's ``slab`` rows at the end, from shared memory."""
    kind, atomic_min = WIDE[dtype], machine.atomic_min
    mapping, chunk_min, ROWS, SCRATCH = chunk_min_function(dtype, tiling)

    def batched(x, results, rows, inner, n, x_at, out_at, phase, chunks, span, slab):
        scratch = cuda.shared.array(SCRATCH, kind)
        minima = cuda.shared.array(BATCH, kind)
        lane, lanes, group = mapping()
        block = types.int64(cuda.blockIdx.x)
        chunk, r0 = block % chunks, block // chunks * slab
        done = types.int64(0)
        while done < slab:
            r = r0 + done + group
            length = n if r < rows else types.int64(0)
            source, _ = row_offsets(r, inner, x_at, out_at)
            smallest = chunk_min(x, source, x_at.step, lane, lanes, length, phase, chunk, span, scratch)
            if lane == 0:
                minima[done + group] = smallest
            done += ROWS
        cuda.syncthreads()
        i = types.int64(cuda.threadIdx.x)
        while i < slab:
            if r0 + i < rows:
                _, target = row_offsets(r0 + i, inner, x_at, out_at)
                atomic_min(results, target, minima[i])
            i += cuda.blockDim.x

    return Source(batched, (dtype, kind), tiling.threads)


@register("numba", "min", "atomic_batched")
@plan_once(Knobs)
def atomic_batched(v: RowView, knobs: Knobs) -> BindView:
    """Several blocks share each row. At the end, each block writes the minima of all its rows by a batch of atomics."""
    return bind_atomic_min("numba/min/atomic_batched", atomic_batched_kernel, BATCH, v, knobs)
